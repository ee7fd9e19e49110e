//! Identities: job, array element, attempt, request token. Printed and parsed in one form only.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;
use std::str::FromStr;

/// A job or one element of an array: `id`, or `id[idx]` where `idx` counts from 1 (0 = no element).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct JobKey {
    pub id: u32,
    pub idx: u32,
}

impl JobKey {
    pub fn job(id: u32) -> JobKey {
        JobKey { id, idx: 0 }
    }

    pub fn element(id: u32, idx: u32) -> JobKey {
        JobKey { id, idx }
    }

    /// A number with the same order.
    pub fn number(self) -> u64 {
        u64::from(self.id) << 32 | u64::from(self.idx)
    }
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.idx == 0 {
            write!(f, "{}", self.id)
        } else {
            write!(f, "{}[{}]", self.id, self.idx)
        }
    }
}

impl FromStr for JobKey {
    type Err = &'static str;

    fn from_str(s: &str) -> Result<JobKey, Self::Err> {
        let (id, idx) = match s.split_once('[') {
            None => (s, None),
            Some((id, rest)) => (id, Some(rest.strip_suffix(']').ok_or("job key lacks ']'")?)),
        };
        let id = id.parse().map_err(|_| "job id is not a number")?;
        let idx = match idx {
            None => 0,
            Some(i) => i.parse().map_err(|_| "array index is not a number")?,
        };
        Ok(JobKey { id, idx })
    }
}

impl Serialize for JobKey {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobKey {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<JobKey, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// One try to run a job or element. A host starts each attempt at most once, ever.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct AttemptId {
    /// The job or element.
    pub j: JobKey,
    /// Counts from 1 with every dispatch of `j`.
    pub at: u32,
}

/// The first attempt of a job.
#[cfg(test)]
pub fn first_attempt(id: u32) -> AttemptId {
    AttemptId {
        j: JobKey::job(id),
        at: 1,
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.j, self.at)
    }
}

/// The random name of one request: 128 bits as 32 lower-case hex digits. Two requests with the
/// same token are the same request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Token(pub u128);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Token {
    type Err = &'static str;

    fn from_str(s: &str) -> Result<Token, Self::Err> {
        if s.len() != 32 || !s.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err("a token is 32 lower-case hex digits");
        }
        u128::from_str_radix(s, 16)
            .map(Token)
            .map_err(|_| "a token is 32 lower-case hex digits")
    }
}

impl Serialize for Token {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Token, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_print_and_parse_alike() {
        for key in [JobKey::job(7), JobKey::element(2_147_483_647, 100_000)] {
            assert_eq!(key.to_string().parse::<JobKey>(), Ok(key));
        }
        assert!("7[".parse::<JobKey>().is_err());
        assert!("x".parse::<JobKey>().is_err());
    }

    #[test]
    fn tokens_have_one_form() {
        let token = Token(0xabc);
        assert_eq!(token.to_string().parse::<Token>(), Ok(token));
        assert!("ABC".parse::<Token>().is_err());
        assert!(token.to_string().to_uppercase().parse::<Token>().is_err());
    }
}

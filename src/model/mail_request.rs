//! The events at which the submitter of a job wants mail, and the address.

use serde::{Deserialize, Serialize};

/// The mail that a job requests; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct MailRequest {
    #[serde(skip_serializing_if = "is_false")]
    pub start: bool,
    /// At an end with exit code 0; at any other end.
    #[serde(skip_serializing_if = "is_false")]
    pub done: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub exit: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub suspend: bool,
    /// A mail address or a user; empty: the submitter.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub to: String,
}

fn is_false(b: &bool) -> bool {
    !*b
}

impl MailRequest {
    /// Whether there is neither an event nor an address.
    pub fn is_none(&self) -> bool {
        *self == MailRequest::default()
    }

    /// Whether any event is requested.
    pub fn is_wanted(&self) -> bool {
        self.start || self.done || self.exit || self.suspend
    }

    /// The events as words of `-notify`.
    pub fn words(&self) -> String {
        let all = [
            (self.start, "start"),
            (self.done, "done"),
            (self.exit, "exit"),
            (self.suspend, "suspend"),
        ];
        let requested = all.iter().filter(|(requested, _)| *requested);
        let words: Vec<&str> = requested.map(|(_, word)| *word).collect();
        words.join(" ")
    }

    /// Adds the events named by `-notify`.
    ///
    /// # Errors
    /// An unknown word.
    pub fn add(&mut self, words: &str) -> Result<(), String> {
        let mut any = false;
        for word in words.split([' ', ',']).filter(|word| !word.is_empty()) {
            match word {
                "start" => self.start = true,
                "done" => self.done = true,
                "exit" => self.exit = true,
                "suspend" => self.suspend = true,
                other => return Err(format!("'{other}' is not start, done, exit or suspend")),
            }
            any = true;
        }
        match any {
            true => Ok(()),
            false => Err("give start, done, exit or suspend".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        let mut request = MailRequest::default();
        request.add("exit, start").unwrap();
        assert_eq!(request.words(), "start exit");
        assert!(request.is_wanted() && !request.done);
        assert!(request.add("end").unwrap_err().contains("'end'"));
        assert!(request.add(" ").is_err());
        assert!(MailRequest::default().is_none());
    }
}

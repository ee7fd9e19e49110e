//! The content of a file that a user submits with a job: its bytes, whatever their encoding.
//!
//! Owns their form in JSON: a string if they are UTF-8, otherwise `{"latin1": "..."}` with one
//! character for each byte. Interprets nothing.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The bytes of a script or of a copied input.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub struct ByteText(Vec<u8>);

/// How a [`ByteText`] is written.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Utf8(String),
    /// Each character stands for the byte of its number: ISO 8859-1.
    Latin1 {
        latin1: String,
    },
}

impl ByteText {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn is_utf8(&self) -> bool {
        std::str::from_utf8(&self.0).is_ok()
    }

    /// The bytes as text: UTF-8, or else one character for each byte.
    pub fn text(&self) -> Cow<'_, str> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => Cow::Owned(latin1(&self.0)),
        }
    }
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

impl From<String> for ByteText {
    fn from(text: String) -> ByteText {
        ByteText(text.into_bytes())
    }
}

impl From<Vec<u8>> for ByteText {
    fn from(bytes: Vec<u8>) -> ByteText {
        ByteText(bytes)
    }
}

impl From<Form> for ByteText {
    fn from(form: Form) -> ByteText {
        match form {
            Form::Utf8(text) => text.into(),
            // A character beyond ISO 8859-1 is never written; as UTF-8 it at least stays readable.
            Form::Latin1 { latin1 } => match latin1.chars().map(u8::try_from).collect() {
                Ok(bytes) => ByteText(bytes),
                Err(_) => latin1.into(),
            },
        }
    }
}

impl From<ByteText> for Form {
    fn from(text: ByteText) -> Form {
        match String::from_utf8(text.0) {
            Ok(text) => Form::Utf8(text),
            Err(e) => Form::Latin1 {
                latin1: latin1(e.as_bytes()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_stays_a_string() {
        let text = ByteText::from("#!/bin/sh\nä\n".to_owned());
        assert_eq!(
            serde_json::to_string(&text).unwrap(),
            r##""#!/bin/sh\nä\n""##
        );
        let old = ByteText::from(b"K\xf8r".to_vec());
        assert_eq!(serde_json::to_string(&old).unwrap(), r#"{"latin1":"Kør"}"#);
        assert_eq!((old.text().as_ref(), old.is_utf8()), ("Kør", false));
    }

    proptest! {
        #[test]
        fn any_bytes_read_back(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let text = ByteText::from(bytes.clone());
            let json = serde_json::to_string(&text).unwrap();
            let back: ByteText = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(back.as_bytes(), &bytes[..]);
        }
    }
}

//! Names and values of a form or a query, in their order; a name may occur more than once.

use crate::secret::Secret;

/// Maximum number of fields of a form.
const FIELDS_MAX: usize = 2_000;

/// See the top of this file.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Fields(pub Vec<(String, String)>);

impl Fields {
    /// Reads `a=1&b=2`; `None`: invalid, or too many fields.
    pub fn parse(bytes: &[u8]) -> Option<Fields> {
        let fields: Vec<(String, String)> = serde_urlencoded::from_bytes(bytes).ok()?;
        (fields.len() <= FIELDS_MAX).then_some(Fields(fields))
    }

    /// The first value of a name without surrounding blanks; empty if the name does not occur.
    pub fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.trim())
    }

    /// Removes and returns the first value of a name, as it was typed; empty if the name does not
    /// occur.
    pub fn take_secret(&mut self, name: &str) -> Secret {
        let found = self.0.iter_mut().find(|(known, _)| known == name);
        let text = found.map(|(_, value)| std::mem::take(value));
        self.0.retain(|(known, _)| known != name);
        Secret::new(text.unwrap_or_default())
    }

    /// All values of a name.
    pub fn all(&self, name: &str) -> Vec<String> {
        let found = self.0.iter().filter(|(known, _)| known == name);
        found.map(|(_, value)| value.clone()).collect()
    }

    pub fn has(&self, name: &str) -> bool {
        !self.get(name).is_empty()
    }

    /// The number in a field; `otherwise` if there is none.
    pub fn number(&self, name: &str, otherwise: usize) -> usize {
        self.get(name).parse().unwrap_or(otherwise)
    }

    /// The same fields as a query with one of them changed; empty fields are omitted.
    pub fn with(&self, name: &str, value: &str) -> String {
        let unchanged = self
            .0
            .iter()
            .filter(|(known, v)| known != name && !v.is_empty());
        let mut all: Vec<(&str, &str)> = unchanged.map(|(n, v)| (n.as_str(), v.as_str())).collect();
        if !value.is_empty() {
            all.push((name, value));
        }
        serde_urlencoded::to_string(all).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_written() {
        let fields = Fields::parse(b"id=1&id=2%5B3%5D&q=+a+b+&e=").unwrap();
        assert_eq!(fields.all("id"), ["1", "2[3]"]);
        assert_eq!((fields.get("q"), fields.get("none")), ("a b", ""));
        assert_eq!(fields.with("q", ""), "id=1&id=2%5B3%5D");
        assert_eq!(fields.with("n", "5&6"), "id=1&id=2%5B3%5D&q=+a+b+&n=5%266");
        let mut fields = Fields::parse(b"user=a&password=+p%26+&password=q").unwrap();
        assert_eq!(fields.take_secret("password").reveal(), " p& ");
        assert!(!fields.has("password") && fields.get("user") == "a");
        assert_eq!(fields.take_secret("password").reveal(), "");
        assert_eq!(
            Fields::parse("a=1&".repeat(FIELDS_MAX + 1).as_bytes()),
            None
        );
    }
}

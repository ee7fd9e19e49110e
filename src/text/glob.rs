//! Names with `*` at either end, as in `-J` and `-w`. Does not know what the names refer to.

/// A name with `*` at either end.
#[derive(Clone, Copy, Debug)]
pub struct Glob<'a> {
    text: &'a str,
    open_start: bool,
    open_end: bool,
}

impl<'a> Glob<'a> {
    pub fn new(pattern: &'a str) -> Glob<'a> {
        let front = pattern.starts_with('*');
        let text = pattern.strip_prefix('*').unwrap_or(pattern);
        let back = text.ends_with('*');
        let text = text.strip_suffix('*').unwrap_or(text);
        Glob {
            text,
            open_start: front || pattern == "*",
            open_end: back || pattern == "*",
        }
    }

    pub fn matches(&self, name: &str) -> bool {
        match (self.open_start, self.open_end) {
            (false, false) => name == self.text,
            (true, false) => name.ends_with(self.text),
            (false, true) => name.starts_with(self.text),
            (true, true) => name.contains(self.text),
        }
    }

    /// The only name that matches, if there is no `*`.
    pub fn exact(&self) -> Option<&'a str> {
        (!self.open_start && !self.open_end).then_some(self.text)
    }

    /// The prefix of every name that matches.
    pub fn beginning(&self) -> &'a str {
        if self.open_start { "" } else { self.text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_at_either_end() {
        for (pattern, name, want) in [
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("*b*", "abc", true),
            ("b", "abc", false),
            ("*", "", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(name), want, "{pattern} {name}");
        }
        assert_eq!(Glob::new("ab").exact(), Some("ab"));
        assert_eq!(Glob::new("ab*").exact(), None);
        assert_eq!(Glob::new("ab*").beginning(), "ab");
        assert_eq!(Glob::new("*ab").beginning(), "");
    }
}

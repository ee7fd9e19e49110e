//! Paths of job groups: `/project/phase1`.
//!
//! Owns which paths are legal and which group contains which. Never knows whether a group exists.

use super::{ParseError, names};

/// Maximum length of a path, in bytes.
pub const MAX_PATH: usize = 512;
/// Maximum number of components of a path.
pub const MAX_DEPTH: usize = 16;

/// Accepts `/a/b`: 1 to 16 names, each as [`names::check_name`] accepts them.
///
/// # Errors
/// Says which part of the path is not allowed.
pub fn check(path: &str) -> Result<(), ParseError> {
    if path.len() > MAX_PATH {
        return Err(ParseError::too_long("job group", MAX_PATH, path.len()));
    }
    let Some(rest) = path.strip_prefix('/') else {
        return Err(ParseError::new(0, 1, "a job group starts with /"));
    };
    let mut at = 1;
    for (depth, name) in rest.split('/').enumerate() {
        if depth == MAX_DEPTH {
            let text = format!("a job group has at most {MAX_DEPTH} names");
            return Err(ParseError::new(at, name.len(), text));
        }
        names::check_name(name).map_err(|e| e.shifted(at))?;
        at += name.len() + 1;
    }
    Ok(())
}

/// Whether `path` is the group `group` or below it.
pub fn is_within(path: &str, group: &str) -> bool {
    path.strip_prefix(group)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The group and the groups that contain it, from the top: `/a`, `/a/b`. None for no group.
pub fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
    let whole = (!path.is_empty()).then_some(path.len());
    ends.chain(whole).map(|end| &path[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let deep = "/a".repeat(MAX_DEPTH);
        for good in ["/a", "/a/b.1/c_d-2", deep.as_str()] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, at) in [
            ("", 0),
            ("/", 1),
            ("a", 0),
            ("a/b", 0),
            ("/a/", 3),
            ("//a", 1),
            ("/a/b c", 4),
            ("/a/../b", 3),
            ("/a/-x", 3),
        ] {
            assert_eq!(check(bad).expect_err(bad).at, at, "{bad}");
        }
        let too_deep = format!("{deep}/b");
        assert!(check(&too_deep).unwrap_err().message.contains("at most 16"));
        assert!(check(&format!("/{}", "a/".repeat(400))).is_err());
        assert!(check(&format!("/{}", "a".repeat(65))).is_err());
    }

    #[test]
    fn a_group_contains_its_subgroups_and_no_group_of_a_similar_name() {
        assert!(is_within("/a", "/a") && is_within("/a/b", "/a") && is_within("/a/b/c", "/a/b"));
        assert!(!is_within("/ab", "/a") && !is_within("/a", "/a/b") && !is_within("", "/a"));
    }

    #[test]
    fn ancestors_begin_at_the_top() {
        let of = |path| ancestors(path).collect::<Vec<_>>();
        assert_eq!(of("/a/b/c"), ["/a", "/a/b", "/a/b/c"]);
        assert_eq!(of("/a"), ["/a"]);
        assert!(of("").is_empty());
    }
}

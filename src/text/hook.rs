//! Programs that an administrator names: an absolute path and plain arguments, run without a shell,
//! so that exactly the checked program runs.

/// Whether `command` is an absolute path followed by plain words.
///
/// # Errors
/// The reason why it is refused, as the end of a sentence.
pub fn check_program(command: &str) -> Result<(), String> {
    let Some(program) = command.split_whitespace().next() else {
        return Err("a program is missing".into());
    };
    if !program.starts_with('/') {
        return Err(format!("{program:?} is not the absolute path of a program"));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || " _-./,:+@%=".contains(c);
    match command.chars().find(|c| !plain(*c)) {
        Some(c) => Err(format!("{c:?} would need a shell, and none runs it")),
        None => Ok(()),
    }
}

/// The words of such a command.
pub fn words(command: &str) -> Vec<String> {
    command.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_a_path_and_needs_no_shell() {
        check_program("/opt/site/prolog -v --mode=full a.b").unwrap();
        for bad in [
            "", " ", "prolog", "./a", "/a; rm b", "/a $X", "/a 'b'", "/a\n/b",
        ] {
            assert!(check_program(bad).is_err(), "{bad:?}");
        }
        assert_eq!(words("/a  b c"), ["/a", "b", "c"]);
    }
}

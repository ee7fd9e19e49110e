//! Job categories: names by which a site provides options to programs that do not know them.
//!
//! Owns the form of the file `drmaa.categories` beside `cb.conf`: lines `NAME: OPTIONS OF CSUB`,
//! with comments after `#` at the beginning of a line.

use corral::sys::fs;
use corral::text::command::split_words;
use std::path::Path;

/// Maximum size of the file.
const FILE_MAX: u64 = 256 << 10;

/// The options of a category; `conf`: the cluster's `cb.conf`.
///
/// # Errors
/// There is no such category, or the file cannot be read or understood.
pub(crate) fn options(conf: &Path, name: &str) -> Result<Vec<String>, String> {
    let file = conf.with_file_name("drmaa.categories");
    let bytes = fs::read_optional(&file, FILE_MAX).map_err(|e| e.to_string())?;
    let Some(bytes) = bytes else {
        return Err(format!(
            "there is no job category '{name}': there is no {}",
            file.display()
        ));
    };
    let text = String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8", file.display()))?;
    find(&text, name).map_err(|why| format!("{}: {why}", file.display()))
}

fn find(text: &str, name: &str) -> Result<Vec<String>, String> {
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((found, options)) = line.split_once(':') else {
            return Err(format!("line {}: not NAME: OPTIONS", n + 1));
        };
        if found.trim() == name {
            return split_words(options).map_err(|e| format!("line {}: {}", n + 1, e.message));
        }
    }
    Err(format!("there is no job category '{name}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_category_is_a_line_of_options() {
        let text = "# ours\n\nbig: -q long -R 'span[hosts=1]'\nsmall:\nbad\n";
        assert_eq!(
            find(text, "big").unwrap(),
            ["-q", "long", "-R", "span[hosts=1]"]
        );
        assert_eq!(find(text, "small").unwrap(), [""; 0]);
        assert_eq!(find(text, "huge").unwrap_err(), "line 5: not NAME: OPTIONS");
        assert!(
            find("a:\n", "b")
                .unwrap_err()
                .contains("no job category 'b'")
        );
    }

    #[test]
    fn without_a_file_there_is_no_category() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("cb.conf");
        assert!(options(&conf, "x").unwrap_err().contains("there is no "));
        corral::sys::fs::publish(&dir.path().join("drmaa.categories"), b"x: -n 2").unwrap();
        assert_eq!(options(&conf, "x").unwrap(), ["-n", "2"]);
    }
}

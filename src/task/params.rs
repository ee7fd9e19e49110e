//! The parameter table of an array (`--params`): one line of values for each element.
//!
//! Owns its stored form: a line with the names of the columns, then a line for each element, each a
//! JSON list of texts. Reads no file.

use crate::text::width;

/// Prefix of the variables of an element.
pub const PREFIX: &str = "CB_PARAM_";
/// Maximum number of columns, and maximum length of the name of one in bytes.
pub const COLUMNS_MAX: usize = 100;
pub const NAME_MAX: usize = 64;

/// Checks the name of a column, which becomes the end of a variable's name.
///
/// # Errors
/// The problem with the name.
pub fn check_name(name: &str) -> Result<(), String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    match name.len() {
        0 => Err("the name of a column is missing".into()),
        n if n > NAME_MAX => Err(format!(
            "the name of a column has more than {NAME_MAX} bytes"
        )),
        _ if name.bytes().all(plain) => Ok(()),
        _ => {
            let name = width::escape(name);
            Err(format!("column '{name}': a name has letters, digits and _"))
        }
    }
}

/// Formats a line of the stored form.
pub fn line(values: &[&str]) -> String {
    let mut text = serde_json::Value::from(values).to_string();
    text.push('\n');
    text
}

/// The variables of the element with this index, which counts from 1, as `NAME=VALUE`.
///
/// # Errors
/// The table has no such line, or is damaged.
pub fn variables(table: &[u8], index: u32) -> Result<Vec<String>, String> {
    let mut lines = memchr::memchr_iter(b'\n', table);
    let names: Vec<String> = texts(&table[..lines.next().unwrap_or(table.len())])?;
    let missing = || format!("the parameter file (--params) has no line for element {index}");
    let n = usize::try_from(index).map_err(|_| missing())?;
    let begin = match n {
        0 => return Err(missing()),
        1 => table.iter().position(|b| *b == b'\n').ok_or_else(missing)?,
        n => lines.nth(n - 2).ok_or_else(missing)?,
    };
    let end = memchr::memchr(b'\n', &table[begin + 1..]).ok_or_else(missing)?;
    let values: Vec<String> = texts(&table[begin + 1..][..end])?;
    if values.len() != names.len() {
        return Err(damaged("its lines have different numbers of values"));
    }
    let pairs = names.iter().zip(values);
    Ok(pairs.map(|(n, v)| format!("{PREFIX}{n}={v}")).collect())
}

fn texts(line: &[u8]) -> Result<Vec<String>, String> {
    serde_json::from_slice(line).map_err(|e| damaged(&e.to_string()))
}

fn damaged(why: &str) -> String {
    format!("the parameter table of the job is damaged: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_has_its_line() {
        let rows = [&["lr", "opt"][..], &["0.1", "a b"], &["0.01", "x=\n\"y\""]];
        let table: String = rows.iter().map(|row| line(row)).collect();
        let of = |n| variables(table.as_bytes(), n);
        assert_eq!(of(1).unwrap(), ["CB_PARAM_lr=0.1", "CB_PARAM_opt=a b"]);
        assert_eq!(
            of(2).unwrap(),
            ["CB_PARAM_lr=0.01", "CB_PARAM_opt=x=\n\"y\""]
        );
        for n in [0, 3, u32::MAX] {
            assert!(of(n).unwrap_err().contains("no line for element"), "{n}");
        }
    }

    #[test]
    fn damage_is_named() {
        for table in ["", "[]", "{\n", "[\"a\"]\n[]\n", "[\"a\"]\n[1]\n"] {
            assert!(variables(table.as_bytes(), 1).is_err(), "{table}");
        }
    }

    #[test]
    fn names_fit_into_variables() {
        assert!(check_name("learning_rate2").is_ok());
        for wrong in ["", "a b", "a=b", "ä", &"x".repeat(65)] {
            assert!(check_name(wrong).is_err(), "{wrong}");
        }
    }
}

//! Formats of Slurm's listing commands: `%.18i %.9P` and `JobID:10,State`.
//!
//! Owns widths and truncation. Knows no field: each command provides its own.

use crate::text::width::escape;

/// Maximum number of fields of one format, and maximum width of a column.
const FIELDS_MAX: usize = 200;
const WIDTH_MAX: usize = 4096;

/// A part of a format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum FormatPart {
    Text(String),
    Field(FormatColumn),
}

/// A field with its format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FormatColumn {
    /// Its index among the command's fields.
    pub field: usize,
    pub right_aligned: bool,
    /// `None`: the width of the value.
    pub width: Option<usize>,
}

impl FormatColumn {
    /// Appends a value with this width; a longer one is cut.
    pub(crate) fn put(&self, out: &mut String, value: &str) {
        let value = escape(value);
        let Some(width) = self.width else {
            out.push_str(&value);
            return;
        };
        let cut: String = value.chars().take(width).collect();
        let pad = " ".repeat(width - cut.chars().count());
        match self.right_aligned {
            true => out.extend([pad.as_str(), &cut]),
            false => out.extend([cut.as_str(), &pad]),
        }
    }
}

/// Parses `%[.][WIDTH]LETTER` with text between; `%%` is a percent sign. `find` returns the index
/// of the field of a letter.
///
/// # Errors
/// Names the letter that is not a field.
pub(crate) fn percent(
    text: &str,
    find: &dyn Fn(char) -> Option<usize>,
) -> Result<Vec<FormatPart>, String> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            plain.push(c);
            continue;
        }
        let right_aligned = chars.next_if_eq(&'.').is_some();
        let mut digits = String::new();
        while let Some(digit) = chars.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        let letter = match chars.next() {
            Some('%') if digits.is_empty() && !right_aligned => {
                plain.push('%');
                continue;
            }
            Some(letter) => letter,
            None => return Err("a field is missing after %".to_owned()),
        };
        let field = find(letter).ok_or_else(|| {
            let letter = escape(&letter.to_string()).into_owned();
            format!("Invalid format specification: %{letter}")
        })?;
        if !plain.is_empty() {
            pieces.push(FormatPart::Text(std::mem::take(&mut plain)));
        }
        let width = width(&digits)?;
        pieces.push(FormatPart::Field(FormatColumn {
            field,
            right_aligned,
            width,
        }));
        check_count(pieces.len())?;
    }
    if !plain.is_empty() {
        pieces.push(FormatPart::Text(plain));
    }
    Ok(pieces)
}

fn width(digits: &str) -> Result<Option<usize>, String> {
    match digits.parse::<usize>() {
        _ if digits.is_empty() => Ok(None),
        Ok(n) if n <= WIDTH_MAX => Ok(Some(n)),
        _ => Err(format!("a column is at most {WIDTH_MAX} wide")),
    }
}

fn check_count(n: usize) -> Result<(), String> {
    match n {
        0..=FIELDS_MAX => Ok(()),
        _ => Err(format!("a format has at most {FIELDS_MAX} fields")),
    }
}

/// Parses `NAME[:[.]WIDTH],...` of `--Format`: the default width is 20.
///
/// # Errors
/// Names the word that is not a field.
pub(crate) fn parse_named_fields(
    text: &str,
    find: &dyn Fn(&str) -> Option<usize>,
) -> Result<Vec<FormatPart>, String> {
    let mut pieces = Vec::new();
    for word in text.split(',').filter(|word| !word.is_empty()) {
        let (name, width_spec) = word.split_once(':').unwrap_or((word, "20"));
        let right_aligned = width_spec.starts_with('.');
        let digits: String = width_spec
            .trim_start_matches('.')
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        let field = find(name.trim())
            .ok_or_else(|| format!("Invalid field requested: \"{}\"", escape(name)))?;
        let width = width(&digits)?.or(Some(20));
        pieces.push(FormatPart::Field(FormatColumn {
            field,
            right_aligned,
            width,
        }));
        check_count(pieces.len())?;
    }
    if pieces.is_empty() {
        return Err("a format has no fields".to_owned());
    }
    Ok(pieces)
}

/// A line: `value` returns the text of each field.
pub(crate) fn line(pieces: &[FormatPart], value: &mut dyn FnMut(usize) -> String) -> String {
    let mut out = String::new();
    for piece in pieces {
        match piece {
            FormatPart::Text(text) => out.push_str(text),
            FormatPart::Field(column) => column.put(&mut out, &value(column.field)),
        }
    }
    out.push('\n');
    out
}

/// A time in the form of Slurm: `2026-11-21T03:07:09`; `none` for 0.
pub(crate) fn moment(ms: i64, zone: &jiff::tz::TimeZone, none: &str) -> String {
    if ms <= 0 {
        return none.to_owned();
    }
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(t) => t
            .to_zoned(zone.clone())
            .strftime("%Y-%m-%dT%H:%M:%S")
            .to_string(),
        Err(_) => none.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_cut_and_pad_as_in_slurm() {
        let find = |letter: char| "ijt".find(letter);
        let format = |text: &str| {
            let pieces = percent(text, &find)?;
            let values = ["12_3", "a long name", "R"];
            Ok::<_, String>(line(&pieces, &mut |n| values[n].to_owned()))
        };
        assert_eq!(format("%i %t"), Ok("12_3 R\n".into()));
        assert_eq!(
            format("%.6i|%-j").unwrap_err(),
            "Invalid format specification: %-"
        );
        assert_eq!(format("%.6i|%6j|%3t|"), Ok("  12_3|a long|R  |\n".into()));
        assert_eq!(format("100%% %t"), Ok("100% R\n".into()));
        assert!(format("%x").is_err() && format("%").is_err());
        assert!(format("%5000i").is_err() && format(&"%i".repeat(201)).is_err());
    }

    #[test]
    fn names_have_widths_after_a_colon() {
        let find = |name: &str| ["JobID", "State"].iter().position(|n| *n == name);
        let pieces = parse_named_fields("JobID:6,State:.3", &find).unwrap();
        let out = line(&pieces, &mut |n| ["12", "RUNNING"][n].to_owned());
        assert_eq!(out, "12    RUN\n");
        assert_eq!(
            parse_named_fields("JobID", &find).unwrap(),
            [FormatPart::Field(FormatColumn {
                field: 0,
                right_aligned: false,
                width: Some(20)
            })]
        );
        assert!(
            parse_named_fields("Nope", &find).is_err() && parse_named_fields("", &find).is_err()
        );
    }
}

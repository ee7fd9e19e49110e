//! Fields by name, and tables of them: default tables, and those of `-o`.
//!
//! Owns the grammar of `-o "field[:[-][width]] ... [delimiter='c']"` and the layout of a row. The
//! registries own the values of fields.

use super::cell;
use crate::text::error::nearest;
use crate::text::width;
use std::fmt;

pub(crate) use super::cell::Cut;

/// Maximum length of an `-o` text in bytes, number of fields, width of a column, length of a
/// delimiter.
const FORMAT_MAX: usize = 16 * 1024;
const FIELDS_MAX: usize = 256;
const WIDTH_MAX: usize = 4096;
const DELIMITER_MAX: usize = 16;

/// One field of a registry. `G` is the type of the function that appends its value (nothing if
/// there is no value).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<G: 'static> {
    /// Name in `-o`, in lower case.
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    /// Header of its column, and key of its value in `-json`.
    pub header: &'static str,
    /// Default width with `-o`.
    pub width: usize,
    pub right_aligned: bool,
    pub get: G,
}

/// A field with other names.
pub(crate) const fn field<G: Copy>(
    name: &'static str,
    aliases: &'static [&'static str],
    header: &'static str,
    width: usize,
    right_aligned: bool,
    get: G,
) -> Field<G> {
    Field {
        name,
        aliases,
        header,
        width,
        right_aligned,
        get,
    }
}

/// A left-aligned field.
pub(crate) const fn left<G: Copy>(
    name: &'static str,
    aliases: &'static [&'static str],
    header: &'static str,
    width: usize,
    get: G,
) -> Field<G> {
    Field {
        name,
        aliases,
        header,
        width,
        right_aligned: false,
        get,
    }
}

/// The field with this name, in upper or lower case.
pub(crate) fn find<'f, G>(fields: &'f [Field<G>], name: &str) -> Option<&'f Field<G>> {
    fields.iter().find(|f| {
        f.name.eq_ignore_ascii_case(name) || f.aliases.iter().any(|a| a.eq_ignore_ascii_case(name))
    })
}

/// The error in an `-o` text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum FormatError {
    Empty,
    TooLong,
    Unknown { name: String, near: Option<String> },
    Width { name: String },
    Delimiter,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatError::Empty => f.write_str("the format string names no field"),
            FormatError::TooLong => write!(
                f,
                "the format string is too long: at most {FIELDS_MAX} fields and {FORMAT_MAX} bytes"
            ),
            FormatError::Unknown { name, near } => {
                let name = width::escape(name);
                write!(f, "<{name}> in the format string is not a valid field name")?;
                match near {
                    Some(near) => write!(f, "; did you mean \"{near}\"?"),
                    None => Ok(()),
                }
            }
            FormatError::Width { name } => write!(
                f,
                "the width after {} in the format string must be a number up to {WIDTH_MAX}",
                width::escape(name)
            ),
            FormatError::Delimiter => write!(
                f,
                "the delimiter in the format string must have 1 to {DELIMITER_MAX} characters: \
                 write delimiter='|'"
            ),
        }
    }
}

impl std::error::Error for FormatError {}

/// One column of a table.
#[derive(Debug)]
pub(crate) struct Column<G: 'static> {
    pub field: &'static Field<G>,
    pub header: &'static str,
    pub width: usize,
    pub cut: Cut,
    pub right_aligned: bool,
    /// Escape sequence for a value, on a colour terminal.
    pub paint: Option<fn(&str) -> &'static str>,
}

/// The layout of rows of one kind.
#[derive(Debug)]
pub(crate) struct Table<G: 'static> {
    pub columns: Vec<Column<G>>,
    /// Written between values, which are then neither padded nor cut.
    pub delimiter: Option<String>,
    pub color: bool,
    /// Width of a terminal at which lines are cut.
    pub most: Option<usize>,
    /// A header line that differs from the columns' headers.
    pub title: Option<&'static str>,
}

/// A function that appends a value of one plain row.
pub(crate) type Get<R> = fn(&R, &mut String);

/// Ends the effect of [`Column::paint`].
const PLAIN: &str = "\x1b[0m";

impl<G: Copy> Table<G> {
    /// A table of fixed columns: field name, width, how to cut.
    pub(crate) fn fixed(fields: &'static [Field<G>], columns: &[(&str, usize, Cut)]) -> Table<G> {
        let column = |(name, width, cut): &(&str, usize, Cut)| {
            let field = find(fields, name).expect("tables name fields of their registry");
            Column {
                field,
                header: field.header,
                width: *width,
                cut: *cut,
                right_aligned: field.right_aligned,
                paint: None,
            }
        };
        Table {
            columns: columns.iter().map(column).collect(),
            delimiter: None,
            color: false,
            most: None,
            title: None,
        }
    }

    /// The table of an `-o` text.
    ///
    /// # Errors
    /// Names the first error.
    pub(crate) fn from_format(
        fields: &'static [Field<G>],
        text: &str,
    ) -> Result<Table<G>, FormatError> {
        if text.len() > FORMAT_MAX {
            return Err(FormatError::TooLong);
        }
        let (words, delimiter) = split_format(text)?;
        if words.is_empty() {
            return Err(FormatError::Empty);
        }
        if words.len() > FIELDS_MAX {
            return Err(FormatError::TooLong);
        }
        let columns = words
            .iter()
            .map(|word| column_of(fields, word, delimiter.is_some()))
            .collect::<Result<_, _>>()?;
        Ok(Table {
            columns,
            delimiter,
            color: false,
            most: None,
            title: None,
        })
    }

    /// Appends the header line.
    pub(crate) fn header(&self, out: &mut String) {
        if let Some(title) = self.title {
            let line = out.len();
            out.push_str(title);
            if let Some(most) = self.most {
                cell::fit(out, line, most);
            }
            out.push('\n');
            return;
        }
        self.line(out, |column, out| out.push_str(column.header), false);
    }

    /// Appends one row; `value` calls the function of a field.
    pub(crate) fn row(&self, out: &mut String, mut value: impl FnMut(G, &mut String)) {
        self.line(out, |column, out| value(column.field.get, out), self.color);
    }

    fn line(&self, out: &mut String, mut value: impl FnMut(&Column<G>, &mut String), color: bool) {
        let last = self.columns.len().saturating_sub(1);
        let line = out.len();
        for (n, column) in self.columns.iter().enumerate() {
            if n > 0 {
                out.push_str(self.delimiter.as_deref().unwrap_or(" "));
            }
            let from = out.len();
            value(column, out);
            if out.len() == from {
                out.push('-');
            }
            let limit = (column.cut != Cut::Never).then_some(column.width);
            let used = cell::escape_and_cut(out, from, limit, column.cut);
            if let Some(code) = column.paint.filter(|_| color).map(|f| f(&out[from..]))
                && !code.is_empty()
            {
                out.insert_str(from, code);
                out.push_str(PLAIN);
            }
            let fill = column.width.saturating_sub(used);
            if self.delimiter.is_some() || fill == 0 {
                continue;
            }
            if column.right_aligned {
                out.insert_str(from, &" ".repeat(fill));
            } else if n < last {
                cell::blanks(out, fill);
            }
        }
        if let Some(most) = self.most {
            cell::fit(out, line, most);
        }
        out.push('\n');
    }

    /// Appends a JSON object of the row's fields: texts by header, empty if there is no value.
    pub(crate) fn record(&self, out: &mut String, mut value: impl FnMut(G, &mut String)) {
        out.push('{');
        for (n, column) in self.columns.iter().enumerate() {
            out.push_str(if n > 0 { ",\"" } else { "\"" });
            out.push_str(column.field.header);
            out.push_str("\":");
            let from = out.len();
            value(column.field.get, out);
            cell::json_quote_from(out, from);
        }
        out.push('}');
    }

    /// Colours the column of the field `name`.
    pub(crate) fn painted(mut self, name: &str, paint: fn(&str) -> &'static str) -> Table<G> {
        for column in self.columns.iter_mut().filter(|c| c.field.name == name) {
            column.paint = Some(paint);
        }
        self
    }

    /// Cuts lines where a terminal of this width would wrap them.
    pub(crate) fn fitting(mut self, columns: Option<usize>) -> Table<G> {
        self.most = columns;
        self
    }

    /// Sets whether rows are coloured.
    pub(crate) fn colored(mut self, color: bool) -> Table<G> {
        self.color = color;
        self
    }
}

impl<R: 'static> Table<Get<R>> {
    /// The whole table of plain rows.
    pub(crate) fn print<'r>(&self, rows: impl IntoIterator<Item = &'r R>, header: bool) -> String {
        let mut out = String::new();
        if header {
            self.header(&mut out);
        }
        for row in rows {
            self.row(&mut out, |get, out| get(row, out));
        }
        out
    }

    /// Plain rows in the form of LSF's JSON: command, number of `what`, records.
    pub(crate) fn records<'r>(
        &self,
        command: &str,
        what: &str,
        rows: impl IntoIterator<Item = &'r R>,
    ) -> String {
        let mut records = String::new();
        let mut count = 0;
        for row in rows {
            records.push_str(if count > 0 { ",\n    " } else { "\n    " });
            self.record(&mut records, |get, out| get(row, out));
            count += 1;
        }
        let head = format!("{{\n  \"COMMAND\":\"{command}\",\n  \"{what}\":{count}");
        format!("{head},\n  \"RECORDS\":[{records}\n  ]\n}}\n")
    }
}

/// The way in which values are cut: not at all if `wide`.
pub(crate) fn cut(wide: bool, cut: Cut) -> Cut {
    if wide { Cut::Never } else { cut }
}

/// One word of a format: `name`, `name:`, `name:12`, `name:-12`.
fn column_of<G>(
    fields: &'static [Field<G>],
    word: &str,
    delimited: bool,
) -> Result<Column<G>, FormatError> {
    let (name, size) = match word.split_once(':') {
        None => (word, None),
        Some((name, size)) => (name, Some(size)),
    };
    let Some(field) = find(fields, name) else {
        let names = fields.iter().map(|f| f.name);
        let near = nearest(&name.to_ascii_lowercase(), names).map(str::to_owned);
        let name = name.chars().take(64).collect();
        return Err(FormatError::Unknown { name, near });
    };
    let mut column = Column {
        field,
        header: field.header,
        width: if delimited { 0 } else { field.width },
        cut: Cut::Never,
        right_aligned: field.right_aligned,
        paint: None,
    };
    let Some(size) = size else {
        return Ok(column);
    };
    let (minus, digits) = match size.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, size),
    };
    column.right_aligned |= minus;
    if digits.is_empty() {
        // `name:` requests the value without padding.
        column.width = 0;
        return Ok(column);
    }
    let wide = digits.parse().ok().filter(|n| (1..=WIDTH_MAX).contains(n));
    let name = || name.to_owned();
    column.width = wide.ok_or_else(|| FormatError::Width { name: name() })?;
    // A requested width is kept, except for ids, because a part of an id is another job.
    column.cut = if field.name == "jobid" {
        Cut::Never
    } else {
        Cut::Head
    };
    Ok(column)
}

/// The words of a format and its delimiter. Words are separated by blanks or commas.
fn split_format(text: &str) -> Result<(Vec<&str>, Option<String>), FormatError> {
    const KEY: &str = "delimiter=";
    let mut words = Vec::new();
    let mut delimiter = None;
    let mut rest = text;
    let part = |c: char| c.is_whitespace() || c == ',';
    loop {
        rest = rest.trim_start_matches(part);
        if rest.is_empty() {
            return Ok((words, delimiter));
        }
        let is_key = rest
            .get(..KEY.len())
            .is_some_and(|k| k.eq_ignore_ascii_case(KEY));
        if is_key {
            let (value, after) = delimiter_value(&rest[KEY.len()..])?;
            delimiter = Some(value.to_owned());
            rest = after;
            continue;
        }
        let end = rest.find(part).unwrap_or(rest.len());
        words.push(&rest[..end]);
        rest = &rest[end..];
    }
}

/// The value of `delimiter=` and the text after it.
fn delimiter_value(rest: &str) -> Result<(&str, &str), FormatError> {
    let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let (value, after) = match quote {
        Some(q) => rest[1..].split_once(q).ok_or(FormatError::Delimiter)?,
        None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
    };
    let fits = (1..=DELIMITER_MAX).contains(&value.chars().count());
    let clean = value.chars().all(|c| c == '\t' || !width::is_hidden(c));
    if fits && clean {
        Ok((value, after))
    } else {
        Err(FormatError::Delimiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Get = fn(&(u32, &str), &mut String);

    static FIELDS: &[Field<Get>] = &[
        Field {
            name: "jobid",
            aliases: &["id"],
            header: "JOBID",
            width: 7,
            right_aligned: false,
            get: |v, out| cell::int(out, v.0),
        },
        Field {
            name: "job_name",
            aliases: &["name"],
            header: "JOB_NAME",
            width: 10,
            right_aligned: false,
            get: |v, out| out.push_str(v.1),
        },
    ];

    fn show(format: &str, rows: &[(u32, &str)]) -> Result<String, FormatError> {
        let table = Table::from_format(FIELDS, format)?;
        let mut out = String::new();
        table.header(&mut out);
        for row in rows {
            table.row(&mut out, |get, out| get(row, out));
        }
        Ok(out)
    }

    #[test]
    fn names_in_any_case_aliases_and_widths() {
        assert_eq!(
            show("ID NAME:4 jobid", &[(1, "作业名"), (12_345_678, "")]).unwrap(),
            "JOBID   JOB_ JOBID\n1       作业 1\n12345678 -    12345678\n"
        );
        assert_eq!(
            show("name:-6, id:", &[(1, "ab")]).unwrap(),
            "JOB_NA JOBID\n    ab 1\n"
        );
    }

    #[test]
    fn lines_are_cut_where_a_terminal_would_wrap_them() {
        let mut table = Table::from_format(FIELDS, "name:6 id").unwrap();
        table.columns[0].paint = Some(|_| "\x1b[32m");
        let table = table.colored(true).fitting(Some(8));
        let mut out = String::new();
        table.header(&mut out);
        table.row(&mut out, |get, out| get(&(123_456, "作业"), out));
        table.row(&mut out, |get, out| get(&(1, "a"), out));
        let want = "JOB_NA J\n\x1b[32m作业\x1b[0m   1\n\x1b[32ma\x1b[0m      1\n";
        assert_eq!(out, want);
    }

    #[test]
    fn a_delimiter_stands_anywhere_and_stops_padding() {
        for text in [
            "id name delimiter='|'",
            "delimiter=\"|\" id name",
            "id delimiter=| name",
        ] {
            assert_eq!(show(text, &[(1, "")]).unwrap(), "JOBID|JOB_NAME\n1|-\n");
        }
        assert_eq!(
            show("id name:80 delimiter=','", &[(1, "a b")]).unwrap(),
            "JOBID,JOB_NAME\n1,a b\n"
        );
    }

    #[test]
    fn wrong_formats_are_named() {
        let unknown = show("jobid jobnam", &[]).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "<jobnam> in the format string is not a valid field name; did you mean \"job_name\"?"
        );
        assert_eq!(show(" ", &[]), Err(FormatError::Empty));
        assert!(matches!(show("id:x", &[]), Err(FormatError::Width { .. })));
        assert!(matches!(
            show("id:99999", &[]),
            Err(FormatError::Width { .. })
        ));
        assert_eq!(show("id delimiter='", &[]), Err(FormatError::Delimiter));
        assert_eq!(show("id delimiter=''", &[]), Err(FormatError::Delimiter));
        assert_eq!(show(&"id ".repeat(300), &[]), Err(FormatError::TooLong));
    }

    #[test]
    fn records_keep_text_raw_and_valid() {
        let table = Table::from_format(FIELDS, "id name").unwrap();
        let mut out = String::new();
        table.record(&mut out, |get, out| get(&(3, "a\"\n"), out));
        assert_eq!(out, "{\"JOBID\":\"3\",\"JOB_NAME\":\"a\\\"\\n\"}");
    }

    proptest! {
        #[test]
        fn never_panics(text in ".{0,60}", other in "[a-z:='\", 0-9-]{0,40}") {
            for out in [show(&text, &[(1, &other)]), show(&other, &[(1, &text)])] {
                // The result is a header and a row, or a refusal.
                prop_assert!(out.is_err() || out.is_ok_and(|out| out.lines().count() == 2));
            }
        }
    }
}

//! One list of plain rows in the form that the options select: table, `-o`, `-json`, `--json`.

use super::{colors, columns, json_options};
use crate::client::cli::{Values, flag, opt};
use crate::client::exit::Fail;
use crate::show::field::{Field, Get, Table};
use clap::{ArgMatches, Command};

/// The description of a list that a command prints.
pub(crate) struct Listing<R: 'static> {
    pub command: &'static str,
    /// LSF's key for the number of records.
    pub records_key: &'static str,
    pub fields: &'static [Field<Get<R>>],
    /// The fields of `-json` without `-o`.
    pub json_default: &'static str,
    pub put_json: fn(&mut String, &R),
}

impl<R: 'static> Listing<R> {
    /// Whether the options request a list of records rather than a long page or another form.
    pub(crate) fn wants_table(m: &ArgMatches) -> bool {
        m.has("json") || m.has("jsonl") || m.last("o").is_some()
    }

    /// The rows as text; `table` creates the table for a terminal.
    ///
    /// # Errors
    /// The text of `-o` is invalid, or options exclude each other.
    pub(crate) fn render(
        &self,
        m: &ArgMatches,
        rows: &[&R],
        table: impl FnOnce() -> Table<Get<R>>,
    ) -> Result<String, Fail> {
        let (any, rows) = (!rows.is_empty(), rows.iter().copied());
        let format = |text: &str| {
            Table::from_format(self.fields, text).map_err(|e| Fail::usage(e.to_string()))
        };
        if m.has("jsonl") {
            if m.has("json") || m.last("o").is_some() {
                let text = "--json gives every field; use -json together with -o";
                return Err(Fail::usage(text));
            }
            let mut out = String::new();
            rows.for_each(|row| (self.put_json)(&mut out, row));
            return Ok(out);
        }
        if m.has("json") {
            let table = format(m.last("o").unwrap_or(self.json_default))?;
            return Ok(table.records(self.command, self.records_key, rows));
        }
        let table = match m.last("o") {
            Some(text) => format(text)?,
            // `-w` requests whole values.
            None if is_wide(m) => table().colored(colors()),
            None => table().colored(colors()).fitting(columns()),
        };
        // Missing rows are reported on standard error: no title is printed for an empty table.
        Ok(match any {
            true => table.print(rows, !m.has("noheader")),
            false => String::new(),
        })
    }
}

/// `-w`, if the command has this option.
fn is_wide(m: &ArgMatches) -> bool {
    let given = m.try_get_one::<bool>("w").ok().flatten();
    given.copied().unwrap_or(false)
}

/// The options of every list.
pub(crate) fn options(cmd: Command) -> Command {
    let cmd = cmd
        .arg(opt(
            "o",
            "FORMAT",
            "Columns: \"field[:[-]width] ... [delimiter='c']\"",
        ))
        .arg(flag("noheader", "No header line"));
    json_options(cmd)
}

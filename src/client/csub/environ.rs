//! The environment of a job: what comes from the submitter, and what `-env` changes.

use crate::client::exit::{Fail, Result};
use crate::record::request::ENV_MAX;
use crate::text::names::is_variable;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

/// Variables of the submitting shell that are meaningless in a job.
const SHELL_OWN: &[&str] = &["_", "OLDPWD", "SHLVL"];

/// Prefixes of variables that describe where csub itself runs: the allocation of another batch
/// system or a process of a parallel program. With them, MPI in a job would start its processes
/// there.
const FOREIGN: &[&str] = &[
    "SLURM_",
    "PBS_",
    "PE_HOSTFILE",
    "SGE_TASK_",
    "SGE_JOB_SPOOL_DIR",
    "PMI_",
    "PMIX_",
    "OMPI_COMM_WORLD_",
    // Marks a process of `cadmin dev`, such as the portal; a job gets its own mark.
    "CB_DEV",
];
/// Of these, the variables that are settings of a user or a site.
const FOREIGN_SETTINGS: &[&str] = &[
    "SLURM_CONF",
    "PBS_CONF_FILE",
    "PBS_DEFAULT",
    "PBS_EXEC",
    "PBS_HOME",
    "PBS_SERVER",
];

/// An environment for a job.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Environ {
    pub vars: BTreeMap<String, String>,
    /// Variables that could not be included.
    pub omitted: Vec<String>,
}

/// An item of `-env`.
#[derive(Clone, PartialEq, Eq, Debug)]
enum EnvItem {
    All,
    Nothing,
    Without(String),
    Set(String, String),
    Only(String),
}

/// The environment of a job: `own` is that of this process, `values` the values of `-env` in order.
///
/// The whole environment is included unless `none` or a plain variable name is given without `all`
/// or `~VAR`: then only the named variables. Variables with a prefix in [`FOREIGN`] are included
/// only if they are named.
///
/// # Errors
/// Names the invalid part of `-env`, or the size that is too large.
pub(super) fn environ(
    own: impl Iterator<Item = (OsString, OsString)>,
    values: &[&str],
) -> Result<Environ> {
    let mut items = Vec::new();
    for text in values {
        parse(text, &mut items)?;
    }
    let has = |f: fn(&EnvItem) -> bool| items.iter().any(f);
    let whole = has(|i| matches!(i, EnvItem::All | EnvItem::Without(_)))
        || !has(|i| matches!(i, EnvItem::Nothing | EnvItem::Only(_)));
    let named: BTreeSet<&str> = items
        .iter()
        .filter_map(|i| match i {
            EnvItem::Only(name) => Some(name.as_str()),
            _ => None,
        })
        .collect();
    let mut out = Environ::default();
    for (name, value) in own {
        let shown = name.to_string_lossy();
        let skip = SHELL_OWN.contains(&&*shown);
        let taken = named.contains(&*shown) || whole && !is_foreign(&shown);
        if skip || !taken {
            continue;
        }
        match (name.to_str(), value.into_string()) {
            (Some(name), Ok(value)) if is_variable(name) => {
                out.vars.insert(name.to_owned(), value);
            }
            _ => out.omitted.push(shown.into_owned()),
        }
    }
    for item in items {
        match item {
            EnvItem::Without(name) => {
                out.vars.remove(&name);
            }
            EnvItem::Set(name, value) => {
                out.vars.insert(name, value);
            }
            EnvItem::All | EnvItem::Nothing | EnvItem::Only(_) => {}
        }
    }
    check_size(&out.vars)?;
    Ok(out)
}

fn is_foreign(name: &str) -> bool {
    FOREIGN.iter().any(|front| name.starts_with(front)) && !FOREIGN_SETTINGS.contains(&name)
}

/// Splits a value of `-env` at commas; a value in quotes may contain commas.
fn parse(text: &str, items: &mut Vec<EnvItem>) -> Result<()> {
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (item, next) = item(rest)?;
        items.push(item);
        rest = next.trim_start();
        if let Some(after) = rest.strip_prefix(',') {
            rest = after.trim_start();
        }
    }
    Ok(())
}

/// The first item of `text`, and the rest.
fn item(text: &str) -> Result<(EnvItem, &str)> {
    let word_end = text.find([',', '=']).unwrap_or(text.len());
    let word = text[..word_end].trim_end();
    if !text[word_end..].starts_with('=') {
        let item = match (word, word.strip_prefix('~')) {
            ("all", _) => EnvItem::All,
            ("none", _) => EnvItem::Nothing,
            (_, Some(name)) => EnvItem::Without(checked(name)?),
            (name, None) => EnvItem::Only(checked(name)?),
        };
        return Ok((item, &text[word_end..]));
    }
    let name = checked(word)?;
    let value = &text[word_end + 1..];
    for quote in ['\'', '"'] {
        if let Some(inner) = value.strip_prefix(quote) {
            let end = inner.find(quote).ok_or_else(|| {
                Fail::usage(format!("-env: the quote of {name}'s value is not closed"))
            })?;
            let item = EnvItem::Set(name, inner[..end].to_owned());
            return Ok((item, &inner[end + 1..]));
        }
    }
    let end = value.find(',').unwrap_or(value.len());
    Ok((EnvItem::Set(name, value[..end].to_owned()), &value[end..]))
}

fn checked(name: &str) -> Result<String> {
    if is_variable(name) {
        return Ok(name.to_owned());
    }
    Err(Fail::usage(format!(
        "-env: '{}' is not the name of a variable\nhint: write all, none, NAME, ~NAME or \
         NAME=VALUE, separated by commas",
        crate::text::width::escape(name)
    )))
}

pub(super) fn check_size(vars: &BTreeMap<String, String>) -> Result<()> {
    let total: usize = vars.iter().map(|(n, v)| n.len() + v.len() + 6).sum();
    if total <= ENV_MAX {
        return Ok(());
    }
    let big = vars.iter().max_by_key(|(_, v)| v.len());
    let (name, len) = big.map_or(("", 0), |(n, v)| (n.as_str(), v.len()));
    Err(Fail::refused(format!(
        "the environment has {total} bytes, at most {ENV_MAX} are allowed; the largest variable is \
         {name} with {len}\nhint: leave it out with -env \"~{name}\""
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_for(values: &[&str]) -> Result<String> {
        let own = [
            ("A", "1"),
            ("B", "x\ny"),
            ("_", "/bin/x"),
            ("SHLVL", "2"),
            ("OLDPWD", "/"),
            ("BASH_FUNC_m%%", "() { :; }"),
            ("odd-name", "1"),
        ];
        let own = own.into_iter().map(|(n, v)| (n.into(), v.into()));
        let env = environ(own, values)?;
        let all: Vec<String> = env.vars.iter().map(|(n, v)| format!("{n}={v}")).collect();
        Ok(all.join(";"))
    }

    #[test]
    fn what_goes_along() {
        let cases: &[(&[&str], &str)] = &[
            (&[], "A=1;B=x\ny;BASH_FUNC_m%%=() { :; }"),
            (&["~BASH_FUNC_m%%"], "A=1;B=x\ny"),
            (&["BASH_FUNC_m%%"], "BASH_FUNC_m%%=() { :; }"),
            (&["none"], ""),
            (&["none, C=3"], "C=3"),
            (&["~B, C=3"], "A=1;BASH_FUNC_m%%=() { :; };C=3"),
            (&["C=3"], "A=1;B=x\ny;BASH_FUNC_m%%=() { :; };C=3"),
            (&["A"], "A=1"),
            (&["A, C=a=b,D='x,y' , E=\"\""], "A=1;C=a=b;D=x,y;E="),
            (&["all", "A=2", "A=3"], "A=3;B=x\ny;BASH_FUNC_m%%=() { :; }"),
            (&[""], "A=1;B=x\ny;BASH_FUNC_m%%=() { :; }"),
        ];
        for (values, want) in cases {
            assert_eq!(names_for(values).as_deref(), Ok(*want), "{values:?}");
        }
    }

    #[test]
    fn an_allocation_of_another_system_stays_behind_unless_it_is_named() {
        let taken = |values: &[&str]| {
            let own = [
                "SLURM_JOB_ID",
                "SLURM_CONF",
                "PBS_NODEFILE",
                "PBS_SERVER",
                "PMI_RANK",
                "OMPI_MCA_btl",
            ];
            let own = own.into_iter().map(|name| (name.into(), "1".into()));
            let names: Vec<String> = environ(own, values).unwrap().vars.into_keys().collect();
            names.join(" ")
        };
        assert_eq!(taken(&[]), "OMPI_MCA_btl PBS_SERVER SLURM_CONF");
        assert_eq!(taken(&["all"]), taken(&[]));
        assert_eq!(taken(&["SLURM_JOB_ID"]), "SLURM_JOB_ID");
        assert_eq!(
            taken(&["all, PMI_RANK"]),
            "OMPI_MCA_btl PBS_SERVER PMI_RANK SLURM_CONF"
        );
    }

    #[test]
    fn odd_names_are_left_out_and_said() {
        let own = [("odd-name", "1"), ("OK", "1")];
        let env = environ(own.into_iter().map(|(n, v)| (n.into(), v.into())), &[]).unwrap();
        assert_eq!(env.omitted, ["odd-name"]);
        assert_eq!(env.vars.len(), 1);
    }

    #[test]
    fn wrong_lists_are_refused() {
        for bad in ["=x", "a b", "~", "1A=2", "A='x", "A=\"x", "%"] {
            assert!(names_for(&[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn too_big_is_refused_and_names_the_variable() {
        let own = [("SMALL", "1".to_owned()), ("BIG", "x".repeat(ENV_MAX))];
        let own = own.into_iter().map(|(n, v)| (n.into(), v.into()));
        let fail = environ(own, &[]).unwrap_err();
        assert!(fail.text.contains("BIG"), "{}", fail.text);
        assert_eq!(fail.exit.code(), 4);
    }
}

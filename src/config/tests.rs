//! Tables of what cb.yaml may contain with the results, and every refusal by name.

use super::*;

mod apps;
mod charge;
mod keys;
mod notices;
mod policy;
mod policy_refused;
mod portal;
mod refused;
mod templates;
mod values;

/// Users u1..u9 and root, groups staff and wheel.
fn os() -> OsNames<'static> {
    OsNames {
        user: &|n| n == "root" || n.len() == 2 && n.starts_with('u'),
        group: &|n| n == "staff" || n == "wheel",
    }
}

fn read(text: &str) -> Result<Loaded, Vec<Problem>> {
    load(text.as_bytes(), "cb.yaml", &os())
}

/// A valid text with an addition.
fn with(extra: &str) -> String {
    let mut out = String::new();
    for (section, text) in [
        ("cluster", "cluster: {name: c, administrators: [u1]}\n"),
        ("hosts", "hosts: [{names: 'h[1-4]'}]\n"),
        ("queues", "queues: [{name: q}]\n"),
    ] {
        if !extra.lines().any(|l| l.starts_with(&format!("{section}:"))) {
            out.push_str(text);
        }
    }
    out + extra
}

fn good(extra: &str) -> Config {
    match read(&with(extra)) {
        Ok(l) => l.config,
        Err(p) => panic!(
            "{extra}\n{}",
            p.iter().map(|p| format!("{p}\n")).collect::<String>()
        ),
    }
}

fn codes(text: &str) -> Vec<&'static str> {
    read(text)
        .err()
        .unwrap_or_default()
        .iter()
        .map(|p| p.code)
        .collect()
}

fn warnings(text: &str) -> Vec<&'static str> {
    read(text)
        .expect(text)
        .warnings
        .iter()
        .map(|p| p.code)
        .collect()
}

//! Every setting that cb.yaml may hold is looked at by something outside `config`: what is accepted
//! must not be ignored.

use crate::source;

/// Structures of src/config/types.rs that hold settings.
const SETTINGS: &[&str] = &[
    "Cluster",
    "General",
    "HostEntry",
    "HostModel",
    "UserEntry",
    "UserGroup",
    "Queue",
    "AppProfile",
    "AppLimits",
];

/// Settings that `config` itself turns into answers (`host`, `may_lead`, `user_in`, ...).
const ANSWERED_WITHIN: &[&str] = &[
    "masters",
    "unit_for_limits",
    "members",
    "set",
    "resource_reserve_per_task",
];

fn fields(text: &str, name: &str) -> Vec<String> {
    let start = text
        .find(&format!("pub struct {name} {{"))
        .expect("a struct of types.rs");
    let body = &text[start..start + text[start..].find("\n}").expect("its end")];
    body.lines()
        .filter_map(|l| l.trim().strip_prefix("pub ")?.split_once(':'))
        .map(|(field, _)| field.to_string())
        .collect()
}

#[test]
fn no_accepted_setting_is_ignored() {
    let types = source::read("src/config/types.rs");
    let all: Vec<String> = source::files("src", &["rs"])
        .iter()
        .filter(|f| !f.starts_with("src/config/") || f.ends_with("/query.rs"))
        .map(|f| source::blank(&source::read(f)))
        .collect();
    let mut wrong = Vec::new();
    for name in SETTINGS {
        for field in fields(&types, name) {
            let used = all.iter().any(|text| {
                text.match_indices(&format!(".{field}")).any(|(at, m)| {
                    let next = text[at + m.len()..].chars().next();
                    !next.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '(')
                })
            });
            if !used && !ANSWERED_WITHIN.contains(&field.as_str()) {
                wrong.push(format!("{name}.{field}: nothing outside config reads it"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

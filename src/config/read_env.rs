//! The key `env: {NAME: VALUE, ...}` of applications and templates. Owns which words are valid
//! names of variables; the caller decides which names are reserved.

use super::read::{Ctx, Fields, Words};
use super::read_template::scalar;
use crate::text::yaml::Value;

/// The first `most` variables, in the order of the file. `taken`: why a name cannot be set here;
/// empty if the form of the name is reason enough.
pub(super) fn env(
    ctx: &mut Ctx<'_>,
    f: &Fields<'_>,
    most: usize,
    taken: impl Fn(&str) -> Option<&'static str>,
) -> Vec<(String, Words)> {
    let mut out = Vec::new();
    let entries = match f.node("env").map(|node| (&node.value, node.pos)) {
        None | Some((Value::Refused | Value::Null, _)) => return out,
        Some((Value::Map(entries), _)) => entries,
        Some((_, pos)) => {
            let hint = "write NAME: VALUE lines";
            ctx.problem_hint(pos, "type", "env is a map of names and values", hint);
            return out;
        }
    };
    for entry in entries.iter().take(most) {
        let name = &entry.key;
        let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let good = name.bytes().all(word) && !name.starts_with(|c: char| c.is_ascii_digit());
        if let Some(why) = if good { taken(name) } else { Some("") } {
            let message = format!("{name:?} cannot be the name of a variable here{why}");
            ctx.problem(entry.key_pos, "name", message);
        } else if let Some(value) = scalar(ctx, &entry.value, name) {
            out.push((name.clone(), value));
        }
    }
    if entries.len() > most {
        let message = format!("env: more than {most} variables");
        ctx.problem(f.key_pos("env"), "range", message);
    }
    out
}

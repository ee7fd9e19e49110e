//! The common parts of the JSON of Slurm's commands: the frame around the list, numbers that may
//! not be set, ends of jobs. The form is that of data_parser/v0.0.40; members without a counterpart
//! in Corral are left out.

use crate::sys::signals;
use serde_json::{Value, json};

/// The text before and after a list with this name.
pub(super) fn frame(list: &str, command: &[&str], cluster: &str) -> (String, String) {
    let version = env!("CARGO_PKG_VERSION");
    let meta = json!({
        "plugin": {
            "type": "",
            "name": format!("Corral {version}"),
            "data_parser": "data_parser/v0.0.40",
        },
        "command": command,
        "slurm": {"cluster": cluster},
    });
    (
        format!("{{\n\"meta\": {meta},\n\"{list}\": ["),
        "\n],\n\"errors\": [],\n\"warnings\": []\n}\n".to_owned(),
    )
}

/// Appends one entry of the list on its own line. `more`: it is not the first one.
pub(super) fn put(out: &mut String, entry: &Value, more: bool) {
    out.push_str(if more { ",\n" } else { "\n" });
    out.push_str(&entry.to_string());
}

/// A number that may be unset.
pub(super) fn number(n: Option<u64>) -> Value {
    json!({"set": n.is_some(), "infinite": false, "number": n.unwrap_or(0)})
}

/// A limit; `None` means infinite.
pub(super) fn limit(n: Option<u64>) -> Value {
    json!({"set": n.is_some(), "infinite": n.is_none(), "number": n.unwrap_or(0)})
}

/// Converts `0:15`, exit code and signal, to Slurm's object.
pub(super) fn exit_code(text: &str) -> Value {
    let (code, signal) = text.split_once(':').unwrap_or((text, "0"));
    let code: u64 = code.parse().unwrap_or(0);
    let signal: i32 = signal.parse().unwrap_or(0);
    let status = match (code, signal) {
        (0, 0) => "SUCCESS",
        (_, 0) => "ERROR",
        _ => "SIGNALED",
    };
    let name = match signal {
        0 => String::new(),
        n => signals::name(n),
    };
    let id = u64::try_from(signal).ok().filter(|n| *n > 0);
    json!({
        "status": [status],
        "return_code": number(Some(code)),
        "signal": {"id": number(id), "name": name},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_limits_have_slurms_form() {
        assert_eq!(exit_code("0:0")["status"][0], "SUCCESS");
        assert_eq!(exit_code("3:0")["return_code"]["number"], 3);
        let killed = exit_code("0:9");
        assert_eq!(killed["status"][0], "SIGNALED");
        assert_eq!(killed["signal"]["id"]["number"], 9);
        assert_eq!(limit(None)["infinite"], true);
        let (before, after) = frame("jobs", &["sacct"], "c1");
        let all: Value = serde_json::from_str(&(before + &after)).unwrap();
        assert_eq!(all["meta"]["slurm"]["cluster"], "c1");
        assert_eq!(all["jobs"], json!([]));
    }
}

//! A job's announcement of a program that users connect to over the network: the file of its user
//! `CB_CONNECT_DIR/JOBID.INDEX.json`. Owns its form and limits; does not verify its writer.

use serde::Deserialize;

/// Maximum size of such a file in bytes.
pub const CONNECT_MAX: u64 = 8 << 10;
/// The variable that names the directory of these files.
pub const CONNECT_DIR: &str = "CB_CONNECT_DIR";
/// The directory if the variable is not set, below the home directory.
pub const CONNECT_HOME: &str = ".corral/connect";
/// Maximum length of a kind.
const KIND_MAX: usize = 32;

/// A program that listens.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Connect {
    /// jupyter, vscode, tensorboard, vnc, or another word of letters, digits, `-` and `_`.
    pub kind: String,
    /// The port at which it serves HTTP.
    pub port: u16,
    /// The token that the program requires; empty: none.
    pub token: String,
    /// The path of its first page, with the query, from the file's URL.
    pub path: String,
}

#[derive(Deserialize)]
struct File {
    job_id: u32,
    #[serde(default)]
    index: u32,
    kind: String,
    port: u16,
    #[serde(default)]
    token: String,
    #[serde(default)]
    url: String,
    #[serde(default)]
    web_port: Option<u16>,
}

/// The name of the file for a job or element.
pub fn connect_name(id: u32, idx: u32) -> String {
    format!("{id}.{idx}.json")
}

impl Connect {
    /// Reads the file of this job.
    ///
    /// # Errors
    /// The content is invalid or belongs to another job.
    pub fn from_bytes(bytes: &[u8], id: u32, idx: u32) -> Result<Connect, String> {
        let file: File = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        if (file.job_id, file.index) != (id, idx) {
            return Err(format!("it is of job {}[{}]", file.job_id, file.index));
        }
        let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if file.kind.is_empty() || file.kind.len() > KIND_MAX || !file.kind.bytes().all(is_word) {
            return Err("its kind is not a word".to_owned());
        }
        // A program that does not serve HTTP itself has another one beside it that does.
        let port = match (file.web_port, file.kind.as_str()) {
            (None, "vnc") => {
                let why = "its program has no page: start it with websockify and noVNC";
                return Err(why.to_owned());
            }
            (web, _) => web.unwrap_or(file.port),
        };
        if port == 0 {
            return Err("its port is 0".to_owned());
        }
        Ok(Connect {
            kind: file.kind,
            port,
            token: file.token,
            path: path_of(&file.url)?,
        })
    }
}

/// The path of a URL with its query; `/` if it has no path.
fn path_of(url: &str) -> Result<String, String> {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let path = rest.find('/').map_or("/", |at| &rest[at..]);
    let path = path.split('#').next().unwrap_or("/");
    // Two slashes would begin the name of another host.
    let is_path = path.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
    match is_path && !path.starts_with("//") {
        true => Ok(path.to_owned()),
        false => Err("the path of its url is not valid".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_reads_back_and_only_for_its_job() {
        let text = br#"{"job_id":12,"index":3,"kind":"jupyter","host":"n","port":41723,
            "bind":"127.0.0.1","token":"5f","url":"http://n:41723/lab?a=b#c"}"#;
        let read = Connect::from_bytes(text, 12, 3).unwrap();
        assert_eq!(
            (
                read.kind.as_str(),
                read.port,
                read.token.as_str(),
                read.path.as_str()
            ),
            ("jupyter", 41723, "5f", "/lab?a=b")
        );
        assert!(Connect::from_bytes(text, 12, 0).is_err());
        assert!(Connect::from_bytes(text, 13, 3).is_err());
        let vnc = br#"{"job_id":1,"kind":"vnc","port":5901,"web_port":6080}"#;
        assert_eq!(Connect::from_bytes(vnc, 1, 0).unwrap().port, 6080);
        let bare = br#"{"job_id":1,"kind":"vnc","port":5901}"#;
        assert!(
            Connect::from_bytes(bare, 1, 0)
                .unwrap_err()
                .contains("websockify")
        );
        let plain = br#"{"job_id":1,"kind":"x","port":1}"#;
        assert_eq!(Connect::from_bytes(plain, 1, 0).unwrap().path, "/");
    }

    #[test]
    fn a_file_that_would_lead_elsewhere_is_refused() {
        for (kind, port, url) in [
            ("", 1, ""),
            ("a b", 1, ""),
            ("<b>", 1, ""),
            ("x", 0, ""),
            ("x", 1, "http://n:1//evil.example/"),
            ("x", 1, "http://n:1/\\evil"),
            ("x", 1, "http://n:1/a b"),
            ("x", 1, "http://n:1/a\\r\\nSet-Cookie: x"),
        ] {
            let text = format!(
                r#"{{"job_id":1,"kind":"{kind}","port":{port},"url":"{}"}}"#,
                url.replace('\\', "\\\\")
            );
            assert!(
                Connect::from_bytes(text.as_bytes(), 1, 0).is_err(),
                "{text}"
            );
        }
        assert!(Connect::from_bytes(b"{}", 1, 0).is_err());
        assert!(Connect::from_bytes(br#"{"job_id":1,"kind":"x","port":70000}"#, 1, 0).is_err());
    }
}

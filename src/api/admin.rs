//! Actions of administrators, for the portal: open and close queues and hosts, check and save
//! cb.yaml, check the cluster.
//!
//! Owns the forms of request and answer, which a broker can pass on. Only administrators of the
//! cluster get an answer; the leader checks the rights again for everything that changes the
//! cluster.

pub use crate::config::ConfigChange;
pub use crate::record::request::{HostAct, QueueAct};

use super::read::Reader;
use super::{Failure, FailureKind, send};
use crate::admin::check;
use crate::admin::config_file;
use crate::client::answers::{self, ReadCommand};
use crate::client::exit::Fail;
use crate::config::{self, changes};
use crate::model::sha256_hex;
use crate::record::ack::Outcome;
use crate::record::request::{RequestHead, Verb};
use crate::sys::fs;
use serde::{Deserialize, Serialize};

/// Maximum length of a comment in bytes, as for `cadmin qclose -C`.
pub const COMMENT_MAX: usize = crate::admin::COMMENT_MAX;
/// Maximum number of listed effects of one change.
pub const CHANGES_MAX: usize = 200;

/// A request of an administrator.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdminAction {
    Queues {
        names: Vec<String>,
        act: QueueAct,
        comment: String,
    },
    Hosts {
        names: Vec<String>,
        act: HostAct,
        comment: String,
    },
    /// The text of cb.yaml.
    Config,
    /// The output of `cadmin ckconfig` for a text, and the settings that it would change.
    CheckConfig { text: String },
    /// Replaces cb.yaml by a text and puts it in force. `base`: the digest of the text from which
    /// it was edited.
    SaveConfig { base: String, text: String },
    /// `cinfo -health`.
    Health,
    /// `cadmin check`: takes a few seconds.
    CheckCluster,
}

/// The result of a request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdminAnswer {
    /// The result for each queue or host.
    Outcomes(Vec<Outcome>),
    Config(ConfigText),
    Checked(ConfigVerdict),
    Saved(ConfigSaved),
    /// The output of a command.
    Text(String),
}

/// A cb.yaml.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConfigText {
    pub path: String,
    pub text: String,
    /// SHA-256 of the text.
    pub digest: String,
}

/// The result of checking a text that may become cb.yaml.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConfigVerdict {
    /// Each with line and caret; empty: the text may be saved.
    pub problems: String,
    pub warnings: Vec<String>,
    /// The first [`CHANGES_MAX`] settings that would change.
    pub changes: Vec<ConfigChange>,
    /// The number of all settings that would change.
    pub changed: usize,
}

/// The result of saving cb.yaml.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConfigSaved {
    /// The path of the copy of the previous version; empty: nothing changed.
    pub kept: String,
    pub warnings: Vec<String>,
    /// The leader's answers.
    pub outcomes: Vec<Outcome>,
}

/// Carries out a request of an administrator, as this process, for the reader's user.
///
/// # Errors
/// The user is not an administrator of the cluster, a request is refused, or no answer arrived.
pub fn administer(reader: &Reader, act: &AdminAction) -> Result<AdminAnswer, Failure> {
    if !reader.is_administrator()? {
        return Err(Failure {
            kind: FailureKind::Permission,
            text: "only an administrator of the cluster may do this".to_owned(),
        });
    }
    let source = reader.source();
    match act {
        AdminAction::Queues {
            names,
            act,
            comment,
        } => send_request(
            reader,
            Verb::Queue {
                names: some(names)?,
                act: *act,
                comment: checked(comment)?,
            },
        ),
        AdminAction::Hosts {
            names,
            act,
            comment,
        } => send_request(
            reader,
            Verb::Host {
                names: some(names)?,
                act: *act,
                comment: checked(comment)?,
            },
        ),
        AdminAction::Config => Ok(AdminAnswer::Config(config_text(reader)?)),
        AdminAction::CheckConfig { text } => Ok(AdminAnswer::Checked(verdict(reader, text)?)),
        AdminAction::SaveConfig { base, text } => save(reader, base, text),
        AdminAction::Health => {
            let text = answers::answer(source, ReadCommand::Cluster, &["-health"])?;
            Ok(AdminAnswer::Text(text))
        }
        AdminAction::CheckCluster => {
            let ctx = check::open(Some(source.layout.root().to_path_buf()))?;
            Ok(AdminAnswer::Text(check::report_text(&check::run_checks(
                &ctx,
            ))))
        }
    }
}

fn some(names: &[String]) -> Result<Vec<String>, Failure> {
    match names.is_empty() || names.iter().any(String::is_empty) {
        true => Err(Fail::usage("no queue or host is named").into()),
        false => Ok(names.to_vec()),
    }
}

fn checked(comment: &str) -> Result<String, Failure> {
    match comment.len() > COMMENT_MAX {
        true => Err(Fail::usage(format!(
            "the comment has {} bytes, at most {COMMENT_MAX} are allowed",
            comment.len()
        ))
        .into()),
        false => Ok(comment.to_owned()),
    }
}

fn send_request(reader: &Reader, verb: Verb) -> Result<AdminAnswer, Failure> {
    let ack = send(&reader.source().site, RequestHead::default(), &verb)?;
    if !ack.error.is_empty() {
        return Err(Fail::refused(ack.error).into());
    }
    Ok(AdminAnswer::Outcomes(ack.results))
}

fn config_text(reader: &Reader) -> Result<ConfigText, Failure> {
    let path = reader.source().layout.config();
    let bytes = fs::read_small(&path, config::MAX_BYTES as u64).map_err(Fail::from)?;
    let digest = sha256_hex(&bytes);
    let text = String::from_utf8(bytes)
        .map_err(|_| Fail::refused(format!("{} is not UTF-8", path.display())))?;
    Ok(ConfigText {
        path: path.display().to_string(),
        text,
        digest,
    })
}

fn verdict(reader: &Reader, text: &str) -> Result<ConfigVerdict, Failure> {
    let path = reader.source().layout.config();
    let after = match config_file::check(text.as_bytes(), &path) {
        Ok(loaded) => loaded,
        Err(problems) => {
            return Ok(ConfigVerdict {
                problems,
                ..ConfigVerdict::default()
            });
        }
    };
    let warnings = after.warnings.iter().map(ToString::to_string).collect();
    // A file on the share that has problems is not in force, so there is nothing to compare with.
    let Ok(before) = config_file::load(&path) else {
        return Ok(ConfigVerdict {
            warnings,
            ..ConfigVerdict::default()
        });
    };
    let mut all = changes(&before.config, &after.config);
    let changed = all.len();
    all.truncate(CHANGES_MAX);
    Ok(ConfigVerdict {
        problems: String::new(),
        warnings,
        changes: all,
        changed,
    })
}

fn save(reader: &Reader, base: &str, text: &str) -> Result<AdminAnswer, Failure> {
    let path = reader.source().layout.config();
    let changed = config_file::replace(&path, base, text)?;
    let outcomes = match send_request(reader, Verb::Reconfig)? {
        AdminAnswer::Outcomes(outcomes) => outcomes,
        _ => Vec::new(),
    };
    let backup = changed.backup.map(|backup| backup.display().to_string());
    Ok(AdminAnswer::Saved(ConfigSaved {
        kept: backup.unwrap_or_default(),
        warnings: changed.warnings.iter().map(ToString::to_string).collect(),
        outcomes,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::read::test_cluster;
    use crate::spool::Site;
    use crate::sys::users::UserFacts;

    fn reader(site: Site, name: &str) -> Reader {
        let me = UserFacts {
            uid: 4711,
            gid: 4711,
            name: name.to_owned(),
            home: "/".into(),
            shell: "/bin/sh".into(),
        };
        Reader::new(&site, me)
    }

    #[test]
    fn only_administrators_get_an_answer() {
        let bed = test_cluster::cluster();
        let site = bed.source("portal", 0).site.clone();
        let ordinary = administer(&reader(site.clone(), "u1"), &AdminAction::Health).unwrap_err();
        assert_eq!(ordinary.kind, FailureKind::Permission);
        let answer = administer(&reader(site, "boss"), &AdminAction::Health).unwrap();
        assert!(matches!(&answer, AdminAnswer::Text(text) if text.contains("LEADER")));
    }

    #[test]
    fn what_the_leader_would_refuse_is_not_sent() {
        let bed = test_cluster::cluster();
        let boss = reader(bed.source("portal", 0).site.clone(), "boss");
        for (names, comment) in [(vec![], String::new()), (vec!["q".into()], "x".repeat(600))] {
            let act = AdminAction::Queues {
                names,
                act: QueueAct::Close,
                comment,
            };
            let refused = administer(&boss, &act).unwrap_err();
            assert_eq!(refused.kind, FailureKind::Wrong, "{}", refused.text);
        }
    }

    #[test]
    fn requests_and_answers_survive_their_way_through_a_broker() {
        let act = AdminAction::Hosts {
            names: vec!["h1".into()],
            act: HostAct::Close,
            comment: "disk".into(),
        };
        let text = serde_json::to_string(&act).unwrap();
        assert_eq!(serde_json::from_str::<AdminAction>(&text).unwrap(), act);
        let answer = AdminAnswer::Text("x".into());
        let text = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<AdminAnswer>(&text).unwrap(), answer);
    }
}

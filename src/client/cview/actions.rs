//! Actions on jobs, hosts and queues in cview: the confirmation question, the request, and the
//! answer in one line.
//!
//! Owns no permissions: the leader checks them, as for ckill and cadmin. Sends nothing.

use super::overview::and_others;
use crate::client::job_requests::{self, job_phrase};
use crate::language::Language;
use crate::record::ack::{Ack, Outcome};
use crate::record::request::{HostAct, QueueAct, Selector, SignalAction, Verb};
use crate::text::width::{escape, truncate, width};

/// Maximum length of an administrator's comment, in bytes; the leader refuses longer ones.
pub(crate) const COMMENT_MAX: usize = 511;
/// Maximum number of names in a question.
const NAMED_MAX: usize = 5;

/// A kind of action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ActionKind {
    Kill,
    Stop,
    Resume,
    Top,
    Bottom,
    Requeue,
    OpenHosts,
    CloseHosts,
    OpenQueues,
    CloseQueues,
}

/// An action on some jobs, hosts or queues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Action {
    pub act: ActionKind,
    /// Ids of jobs and elements, or names.
    pub names: Vec<String>,
    /// Number of jobs, hosts or queues; an array counts with its elements.
    pub count: u64,
    /// The comment of an administrator who closes something.
    pub comment: String,
}

impl ActionKind {
    /// The equivalent command.
    fn command(self) -> &'static str {
        match self {
            ActionKind::Kill => "ckill",
            ActionKind::Stop => "cstop",
            ActionKind::Resume => "cresume",
            ActionKind::Top => "ctop",
            ActionKind::Bottom => "cbot",
            ActionKind::Requeue => "crequeue",
            ActionKind::OpenHosts => "cadmin hopen",
            ActionKind::CloseHosts => "cadmin hclose",
            ActionKind::OpenQueues => "cadmin qopen",
            ActionKind::CloseQueues => "cadmin qclose",
        }
    }

    /// The words before and after the number of objects.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            ActionKind::Kill => ("Kill", ""),
            ActionKind::Stop => ("Stop", ""),
            ActionKind::Resume => ("Resume", ""),
            ActionKind::Top => ("Move", " to the top"),
            ActionKind::Bottom => ("Move", " to the bottom"),
            ActionKind::Requeue => ("Requeue", ""),
            ActionKind::OpenHosts | ActionKind::OpenQueues => ("Open", ""),
            ActionKind::CloseHosts | ActionKind::CloseQueues => ("Close", ""),
        }
    }

    fn object_kind(self) -> &'static str {
        match self {
            ActionKind::OpenHosts | ActionKind::CloseHosts => "host",
            ActionKind::OpenQueues | ActionKind::CloseQueues => "queue",
            _ => "job",
        }
    }

    /// Whether the action takes a comment: only closing does.
    pub(crate) fn takes_comment(self) -> bool {
        matches!(self, ActionKind::CloseHosts | ActionKind::CloseQueues)
    }

    /// Whether the action moves jobs in the order; it applies only to whole jobs.
    pub(crate) fn is_move(self) -> bool {
        matches!(self, ActionKind::Top | ActionKind::Bottom)
    }
}

impl Action {
    /// Returns e.g. `Kill 3 jobs`, `Close 1 host`.
    pub(crate) fn title(&self) -> String {
        let (before, after) = self.act.words();
        let s = if self.count == 1 { "" } else { "s" };
        format!(
            "{before} {} {}{s}{after}",
            self.count,
            self.act.object_kind()
        )
    }

    /// Returns e.g. `Kill 3 jobs: 12, 13[2], 14?`, limited to this number of columns.
    pub(crate) fn question(&self, columns: usize, language: Language) -> String {
        const KEYS: &str = "? (y/n)";
        let title = self.title();
        let mut text = format!("{}: ", language.translate(&title));
        let named: Vec<_> = self
            .names
            .iter()
            .take(NAMED_MAX)
            .map(|n| escape(n))
            .collect();
        text.push_str(&named.join(", "));
        if self.names.len() > named.len() {
            text.push_str(", ...");
        }
        if !self.comment.is_empty() {
            text.push_str(&format!(" \"{}\"", escape(&self.comment)));
        }
        let room = columns.saturating_sub(width(KEYS));
        format!("{}{KEYS}", truncate(&text, room))
    }

    /// The request.
    pub(crate) fn verbs(&self) -> Vec<Verb> {
        let signal = |how| {
            vec![Verb::Signal {
                sel: self.selector(),
                how,
            }]
        };
        match self.act {
            ActionKind::Kill => signal(SignalAction::Kill),
            ActionKind::Stop => signal(SignalAction::Stop),
            ActionKind::Resume => signal(SignalAction::Resume),
            ActionKind::Requeue => vec![Verb::Requeue {
                sel: self.selector(),
                hold: false,
                states: ["run", "done", "exit"].map(str::to_owned).into(),
            }],
            // The last job moved becomes the first, so this order keeps that of the marked jobs.
            ActionKind::Top => self
                .names
                .iter()
                .rev()
                .map(|id| move_to(id, false))
                .collect(),
            ActionKind::Bottom => self.names.iter().map(|id| move_to(id, true)).collect(),
            ActionKind::OpenHosts => vec![self.hosts(HostAct::Open)],
            ActionKind::CloseHosts => vec![self.hosts(HostAct::Close)],
            ActionKind::OpenQueues => vec![self.queues(QueueAct::Open)],
            ActionKind::CloseQueues => vec![self.queues(QueueAct::Close)],
        }
    }

    fn selector(&self) -> Selector {
        Selector {
            ids: self.names.clone(),
            ..Selector::default()
        }
    }

    fn hosts(&self, act: HostAct) -> Verb {
        Verb::Host {
            names: self.names.clone(),
            act,
            comment: self.comment.clone(),
        }
    }

    fn queues(&self, act: QueueAct) -> Verb {
        Verb::Queue {
            names: self.names.clone(),
            act,
            comment: self.comment.clone(),
        }
    }

    /// The answer in one line, and whether everything was done: the first refusal, else the first
    /// result, and the number of further ones.
    pub(crate) fn answer(&self, ack: &Ack) -> (String, bool) {
        let phrase = match self.act.object_kind() {
            "host" => |o: &Outcome| format!("Host <{}> {}", o.what, o.text),
            "queue" => |o: &Outcome| format!("Queue <{}> {}", o.what, o.text),
            _ => job_phrase,
        };
        let (done, refused) = job_requests::texts(self.act.command(), ack, phrase);
        let is_done = refused.is_empty();
        let shown = if is_done { &done } else { &refused };
        let mut lines = shown.lines();
        let mut line = match lines.next() {
            Some(first) => escape(first).into_owned(),
            None => format!("{}: done", self.title()),
        };
        line.push_str(&and_others(1 + lines.count()));
        let well = done.lines().count();
        if !is_done && well > 0 {
            line.push_str(&format!("; {well} done"));
        }
        (line, is_done)
    }
}

fn move_to(id: &str, bottom: bool) -> Verb {
    Verb::Move {
        id: id.to_owned(),
        pos: 1,
        bottom,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Token;
    use crate::record::ack::Code;

    fn action(act: ActionKind, names: &[&str]) -> Action {
        Action {
            act,
            names: names.iter().map(|n| (*n).to_owned()).collect(),
            count: names.len() as u64,
            comment: String::new(),
        }
    }

    #[test]
    fn the_question_says_what_and_how_many() {
        let kill = action(ActionKind::Kill, &["12"]);
        assert_eq!(
            kill.question(80, Language::English),
            "Kill 1 job: 12? (y/n)"
        );
        let many = Action {
            count: 9,
            ..action(ActionKind::Bottom, &["1", "2", "3", "4", "5", "6"])
        };
        assert_eq!(
            many.question(80, Language::English),
            "Move 9 jobs to the bottom: 1, 2, 3, 4, 5, ...? (y/n)"
        );
        assert_eq!(
            many.question(30, Language::English),
            "Move 9 jobs to the bott? (y/n)"
        );
        assert_eq!(
            many.question(30, Language::Chinese),
            "将 9 个作业移到末尾: 1,? (y/n)"
        );
        let close = Action {
            comment: "disk\u{1b}".into(),
            ..action(ActionKind::CloseHosts, &["h1", "h2"])
        };
        assert_eq!(
            close.question(80, Language::English),
            "Close 2 hosts: h1, h2 \"disk\\x1b\"? (y/n)"
        );
    }

    #[test]
    fn requests_are_those_of_the_commands() {
        let Verb::Signal { sel, how } = &action(ActionKind::Kill, &["12", "13[2]"]).verbs()[0]
        else {
            panic!("no signal");
        };
        assert_eq!(
            (sel.ids.join(" "), *how),
            ("12 13[2]".into(), SignalAction::Kill)
        );
        assert!(!sel.all, "only what is named");
        let top: Vec<String> = action(ActionKind::Top, &["1", "2"])
            .verbs()
            .iter()
            .map(|verb| match verb {
                Verb::Move { id, pos, bottom } => format!("{id} {pos} {bottom}"),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(top, ["2 1 false", "1 1 false"]);
        let bottom = action(ActionKind::Bottom, &["1", "2"]).verbs();
        assert!(matches!(&bottom[1], Verb::Move { id, bottom: true, .. } if id == "2"));
        let close = action(ActionKind::CloseQueues, &["night"]).verbs();
        assert!(matches!(
            &close[0],
            Verb::Queue {
                act: QueueAct::Close,
                ..
            }
        ));
    }

    #[test]
    fn the_answer_is_one_line_with_the_refusal_first() {
        let outcome = |what: &str, code, text: &str| Outcome {
            what: what.into(),
            code,
            text: text.into(),
        };
        let mut ack = Ack::empty(Token(1));
        let kill = action(ActionKind::Kill, &["1", "2"]);
        ack.results = vec![
            outcome("1", Code::Ok, "is being terminated"),
            outcome("2", Code::Ok, "is being terminated"),
        ];
        assert_eq!(
            kill.answer(&ack),
            ("Job <1> is being terminated (and 1 more)".to_owned(), true)
        );
        ack.results
            .push(outcome("3", Code::Permission, "permission denied"));
        assert_eq!(
            kill.answer(&ack),
            ("Job <3>: Permission denied; 2 done".to_owned(), false)
        );
        let close = action(ActionKind::CloseHosts, &["h1"]);
        ack.results = vec![outcome("h1", Code::Permission, "permission denied")];
        let (message, done) = close.answer(&ack);
        assert!(
            message.ends_with("only a cluster admin or root may do this"),
            "{message}"
        );
        assert!(!done);
    }
}

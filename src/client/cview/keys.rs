//! The keys of cview and their help texts.
//!
//! Owns the names of keys and the texts of the help. What a key does is decided in `key_actions`.

use crate::language::Language;
use crate::text::width::width;

/// The content of the screen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Screen {
    Queues,
    Hosts,
    Jobs,
    /// One job.
    Job,
    /// One host.
    Host,
}

/// A key that was pressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Key {
    Char(char),
    /// A letter together with the control key.
    Ctrl(char),
    Enter,
    Esc,
    Tab,
    BackTab,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
}

/// The page of `?`: keys and their effects.
pub(crate) const HELP: &[(&str, &str)] = &[
    ("1 2 3 4", "queues, hosts, jobs, the selected job or host"),
    (
        "Tab",
        "the next of these screens; Shift-Tab: the one before",
    ),
    ("Up Down k j", "one line; PageUp PageDown: one screen"),
    ("Home End g G", "the first and the last line"),
    ("Left Right", "scroll a host's page sideways"),
    (
        "Enter",
        "open: a queue's jobs, a host, a job; unfold an array",
    ),
    (
        "q Esc",
        "back; q in a list ends cview, as ^C does everywhere",
    ),
    (
        "/",
        "filter: part of a text, or FIELD:PATTERN with the fields",
    ),
    ("", "  id user state queue host name project"),
    ("s r", "choose the column to sort by; reverse the order"),
    ("a f", "jobs of all users or your own; finished jobs too"),
    ("Space U", "mark the line; remove all marks"),
    ("K S R", "jobs: kill, stop, resume"),
    ("T B Q", "jobs: to the top, to the bottom, requeue"),
    ("O C", "hosts and queues, for administrators: open, close"),
    (
        "3P 1R 2D",
        "an array's elements: P pending, R running, D done, E exit",
    ),
    ("^L ^Z", "draw again; suspend cview, 'fg' resumes it"),
];

/// The hints of the bottom line, the most important first.
pub(crate) fn hints(screen: Screen) -> &'static [&'static str] {
    match screen {
        Screen::Queues => &[
            "?:help",
            "q:quit",
            "Tab:screen",
            "Enter:jobs",
            "/:filter",
            "s:sort",
            "r:reverse",
            "Space:mark",
            "O:open",
            "C:close",
        ],
        Screen::Hosts => &[
            "?:help",
            "q:quit",
            "Tab:screen",
            "Enter:host",
            "/:filter",
            "s:sort",
            "r:reverse",
            "Space:mark",
            "O:open",
            "C:close",
        ],
        Screen::Jobs => &[
            "?:help",
            "q:quit",
            "Tab:screen",
            "Enter:job",
            "/:filter",
            "s:sort",
            "a:all",
            "f:finished",
            "K:kill",
            "S:stop",
            "R:resume",
            "Space:mark",
            "T:top",
            "B:bottom",
            "Q:requeue",
        ],
        Screen::Job => &[
            "?:help",
            "q:back",
            "Up/Down:scroll",
            "End:follow",
            "K:kill",
            "S:stop",
            "R:resume",
            "Q:requeue",
        ],
        Screen::Host => &[
            "?:help",
            "q:back",
            "Enter:jobs",
            "Up/Down/Left/Right:scroll",
            "O:open",
            "C:close",
        ],
    }
}

/// As many of the hints as fit in this number of columns.
pub(crate) fn hints_within(screen: Screen, columns: usize, language: Language) -> String {
    let mut line = String::new();
    for hint in hints(screen) {
        let hint = language.translate(hint);
        let gap = if line.is_empty() { 0 } else { 2 };
        if width(&line) + gap + width(&hint) > columns {
            break;
        }
        line.push_str(&"  "[..gap]);
        line.push_str(&hint);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_fits_the_smallest_screen() {
        assert!(HELP.len() <= 17);
        for (keys, what) in HELP {
            let chinese = Language::Chinese.translate(what);
            assert!(keys.len() <= 14 && what.len() <= 60, "{keys} {what}");
            assert!(width(&chinese) <= 60, "{keys} {chinese}");
        }
        let hints = |columns, language| hints_within(Screen::Jobs, columns, language);
        let line = hints(60, Language::English);
        assert!(
            line.starts_with("?:help  q:quit") && line.len() <= 60,
            "{line}"
        );
        let line = hints(60, Language::Chinese);
        let want = "?:帮助  q:退出  Tab:画面  Enter:作业  /:筛选  s:排序  a:全部";
        assert_eq!(line, want, "as many as have room");
        assert!(width(&line) <= 60);
        assert_eq!(hints(5, Language::English), "");
    }

    #[test]
    fn the_help_and_the_hints_are_all_in_chinese() {
        use Screen::{Host, Hosts, Job, Jobs, Queues};
        let screens = [Queues, Hosts, Jobs, Job, Host];
        let hints = screens.iter().flat_map(|screen| hints(*screen)).copied();
        let help = HELP.iter().map(|(_, what)| *what);
        // The names of fields are not translated, because they are typed.
        let words = help.filter(|what| !what.starts_with(' '));
        for text in words.chain(hints) {
            assert_ne!(Language::Chinese.translate(text), text);
        }
    }
}

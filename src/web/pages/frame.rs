//! The frame of every page: menu, user, language, colours, alarms.

use crate::cluster::Snapshot;
use crate::error::WebError;
use crate::guard::{Caller, DisplaySettings};
use crate::translations::{Language, Translations};
use askama::Template;
use axum::response::{Html, IntoResponse, Response};

/// Maximum number of alarms on a page.
const ALARMS_MAX: usize = 5;

/// The pages of the menu: path, and the key of the name in the catalogue.
pub const MENU: &[(&str, &str)] = &[
    ("/", "menu.overview"),
    ("/jobs", "menu.jobs"),
    ("/submit", "menu.submit"),
    ("/terminal", "menu.terminal"),
    ("/files", "menu.files"),
    ("/hosts", "menu.hosts"),
    ("/queues", "menu.queues"),
    ("/limits", "menu.limits"),
    ("/shares", "menu.shares"),
    ("/cron", "menu.cron"),
    ("/resources", "menu.resources"),
    ("/usage", "menu.usage"),
    (ADMIN, "menu.admin"),
];
/// Shown in the menu of administrators only.
const ADMIN: &str = "/admin";

/// What surrounds every page.
pub(super) struct Frame {
    pub w: Translations,
    pub theme: &'static str,
    /// The page with its query, to which the browser returns after changing a setting.
    pub here: String,
    /// The menu entry of the page.
    pub menu: &'static str,
    pub user: String,
    /// The user administers the cluster.
    pub administers: bool,
    pub csrf: String,
    pub cluster: String,
    pub alarms: Vec<String>,
    /// Why the data shown may be old.
    pub trouble: Option<String>,
}

impl Frame {
    pub(super) fn new(
        display: DisplaySettings,
        caller: &Caller,
        now: &Snapshot,
        menu: &'static str,
        url: String,
    ) -> Frame {
        let w = display.words;
        let head = &now.head;
        let silent = head.silent_ms.map(|ms| {
            let time = corral::text::duration::short(ms);
            w.f("frame.silent", time)
        });
        Frame {
            w,
            theme: display.theme,
            here: url,
            menu,
            user: caller.identity.name.clone(),
            administers: caller.administers,
            csrf: caller.csrf.clone(),
            cluster: head.cluster.clone(),
            alarms: head.alarms.iter().take(ALARMS_MAX).cloned().collect(),
            trouble: now.failure.clone().or(silent),
        }
    }

    /// The menu: path, name, whether it is the entry of this page.
    pub(super) fn menu(&self) -> Vec<(&'static str, &'static str, bool)> {
        let entry =
            |(path, key): &(&'static str, &'static str)| (*path, self.w.t(key), *path == self.menu);
        let shown = MENU
            .iter()
            .filter(|(path, _)| *path != ADMIN || self.administers);
        shown.map(entry).collect()
    }

    /// Languages: tag, own name, whether it is the language of the page.
    pub(super) fn languages(&self) -> Vec<(&'static str, &'static str, bool)> {
        let name = |language| match language {
            Language::English => "English",
            Language::Chinese => "中文",
        };
        let each = Language::ALL.into_iter();
        each.map(|l| (l.tag(), name(l), l == self.w.0)).collect()
    }
}

/// Renders a page as a response.
pub(super) fn page(template: &impl Template) -> Result<Response, WebError> {
    Ok(Html(template.render()?).into_response())
}

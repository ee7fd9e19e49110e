//! Reads what the notifier of the leader has published about alerts. Never writes.

use super::exit::{Fail, Result};
use super::read::Source;
use crate::record::notices::{AlertsDoc, DOC_MAX};
use crate::record::sealed;
use crate::record::view::Params;
use crate::spool::Layout;
use crate::sys::{clock, fs};
use crate::text::duration;

/// Maximum number of directory entries that are read.
const NAMES_MAX: usize = 10_000;

/// A notifier publishes twice a minute; if its document is older than this (ms), it is not running.
const SILENT_MS: i64 = 120_000;

/// The newest document; `None`: there are no rules, or no notifier has run yet.
///
/// # Errors
/// It cannot be read.
pub(crate) fn newest(source: &Source, params: &Params) -> Result<Option<AlertsDoc>> {
    if params.alert_rules.is_empty() {
        return Ok(None);
    }
    let mut doc = read(&source.layout)?;
    if let Some(doc) = &mut doc {
        let silent = clock::wall_ms().saturating_sub(doc.t);
        if silent > SILENT_MS {
            let time = duration::short(silent.unsigned_abs());
            let text = format!("cbnotify on {} has been silent for {time}", doc.host);
            doc.troubles.insert(0, text);
        }
    }
    Ok(doc)
}

fn read(layout: &Layout) -> Result<Option<AlertsDoc>> {
    if !fs::exists(&layout.notices()) {
        return Ok(None);
    }
    let names = fs::names(&layout.notices(), NAMES_MAX)?;
    let named = names
        .iter()
        .filter_map(|name| Layout::parse_notices_name(name.to_str()?));
    let newest = named
        .filter(|(is_state, _)| !is_state)
        .map(|(_, epoch)| epoch)
        .max();
    let Some(epoch) = newest else {
        return Ok(None);
    };
    let path = layout.notices_alerts(epoch);
    let Some(bytes) = fs::read_optional(&path, DOC_MAX)? else {
        return Ok(None);
    };
    let read = sealed::from_json(&bytes);
    read.map(|(doc, _)| Some(doc))
        .map_err(|d| Fail::system(format!("{}:{}: {}", path.display(), d.offset, d.damage)))
}

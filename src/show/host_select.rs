//! Evaluates a `select[...]` expression for hosts of the view (`-R` of chosts, cload and cinfo -H).
//!
//! Owns the values of a published host row by resource name: measured values minus reserved
//! amounts, as in the scheduler. `text` owns the expression itself.

use crate::record::host_status::HostStatus;
use crate::record::view::{HostRow, Params};
use crate::text::resreq::{
    AmountSteps, BUILTINS, Builtin, Direction, HostFacts, Kind, ResReq, ResourceDef, Resources,
    Select, Simple, builtin,
};
use crate::text::{ParseError, units};

/// The resources that the cluster has published.
struct PublishedResources<'p>(&'p Params);

impl Resources for PublishedResources<'_> {
    fn find<'a>(&'a self, name: &'a str) -> Option<ResourceDef<'a>> {
        let declared = |(name, kind, ..): &'a (String, String, String, String)| ResourceDef {
            name,
            kind: match kind.as_str() {
                "String" => Kind::Text,
                "Boolean" => Kind::Tag,
                _ => Kind::Number,
            },
            direction: Direction::Decrease,
            reserve: false,
            steps: AmountSteps::Any,
            megabytes: false,
        };
        let found = || self.0.resources.iter().find(|r| r.0 == name);
        builtin(name)
            .map(Builtin::def)
            .or_else(|| found().map(declared))
    }

    fn names(&self) -> Vec<&str> {
        let own = self.0.resources.iter().map(|r| r.0.as_str());
        BUILTINS.iter().map(|b| b.name).chain(own).collect()
    }
}

/// The values of one published host for an expression.
struct HostValues<'h>(&'h HostRow);

impl HostValues<'_> {
    /// The value before reservations.
    fn value(&self, name: &str) -> Option<f64> {
        let h = self.0;
        if let Some(text) = h.resources.get(name) {
            return text.parse().ok();
        }
        let load = &h.load;
        let measured = match name {
            "r15s" => load.r15s,
            "r1m" => load.r1m,
            "r15m" => load.r15m,
            "ut" => load.ut,
            "pg" => load.pg,
            "io" => load.io,
            "ls" => load.ls,
            "it" => load.it,
            "tmp" => load.tmp,
            "swp" => load.swp,
            "mem" => load.mem,
            "ncpus" | "cores" => return Some(f64::from(load.ncpus)),
            "ndisks" => return Some(f64::from(load.ndisks)),
            #[allow(clippy::cast_precision_loss)] // megabytes
            "maxmem" => return Some(load.maxmem as f64),
            #[allow(clippy::cast_precision_loss)] // megabytes
            "maxswp" => return Some(load.maxswp as f64),
            #[allow(clippy::cast_precision_loss)] // megabytes
            "maxtmp" => return Some(load.maxtmp as f64),
            "cpuf" => return Some(h.cpuf),
            "slots" => return Some(f64::from(h.slots.saturating_sub(h.njobs))),
            _ => units::amount(load.values.get(name)?)?,
        };
        // The last values of a silent host are out of date.
        (h.status != HostStatus::Unavailable && measured.is_finite()).then_some(measured)
    }
}

impl HostFacts for HostValues<'_> {
    fn number(&self, name: &str) -> Option<f64> {
        let value = self.value(name)?;
        let taken = self.0.reserved.get(name).copied().unwrap_or(0.0);
        let more_is_less = builtin(name).is_some_and(|b| b.direction == Direction::Increase);
        Some(if more_is_less {
            value + taken
        } else {
            value - taken
        })
    }

    fn text(&self, name: &str) -> Option<&str> {
        let h = self.0;
        match name {
            "type" => Some(&h.host_type),
            "model" => Some(&h.model),
            "hname" => Some(&h.name),
            "status" => Some(h.status.word()),
            _ => h
                .resources
                .get(name)
                .or_else(|| h.load.values.get(name))
                .map(String::as_str),
        }
    }

    fn tag(&self, name: &str) -> bool {
        let sensed = || self.0.load.values.get(name).is_some_and(|v| v == "yes");
        name == "server" || self.0.tags.iter().any(|tag| tag == name) || sensed()
    }
}

/// Whether a published host satisfies an expression.
pub(crate) fn fits(host: &HostRow, select: &Select) -> bool {
    select.accepts(&HostValues(host))
}

/// Keeps the hosts that satisfy `text`, which may only consist of a `select`.
///
/// # Errors
/// The text is invalid, or contains more than a selection.
pub(crate) fn retain_selected(
    hosts: &mut Vec<&HostRow>,
    text: &str,
    params: &Params,
) -> Result<(), ParseError> {
    let req = ResReq::parse(text, &PublishedResources(params))?;
    let only = |s: &&Simple| {
        let rest = Simple {
            select: None,
            ..(*s).clone()
        };
        rest == Simple::default()
    };
    let Some(simple) = req.simple().filter(only) else {
        let message = "a list of hosts can only be filtered by select[...]";
        return Err(ParseError::new(0, text.len(), message));
    };
    if let Some(select) = &simple.select {
        hosts.retain(|h| select.accepts(&HostValues(h)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::host::tests::host;
    use super::*;

    fn kept(text: &str) -> Result<usize, String> {
        let params = Params {
            resources: vec![
                ("lic".into(), "Numeric".into(), "Dec".into(), String::new()),
                ("fast".into(), "Boolean".into(), "N/A".into(), String::new()),
            ],
            ..Params::default()
        };
        let (measured, mut silent) = (host(), host());
        silent.status = "unavail".into();
        let mut hosts = vec![&measured, &silent];
        retain_selected(&mut hosts, text, &params).map_err(|e| e.message)?;
        Ok(hosts.len())
    }

    #[test]
    fn selections() {
        // 128 GB are free, of which 2 GB are reserved.
        assert_eq!(kept("select[mem>126000]"), Ok(1));
        assert_eq!(kept("mem>130000"), Ok(0));
        assert_eq!(kept("select[fast && maxmem>1000]"), Ok(2));
        assert_eq!(kept("select[lic>8]"), Ok(0));
        assert_eq!(kept("select[type==X86_64 && status==unavail]"), Ok(1));
        assert_eq!(kept(""), Ok(2));
    }

    #[test]
    fn anything_else_is_refused() {
        assert!(kept("select[nix>1]").is_err());
        assert!(
            kept("rusage[mem=1]")
                .unwrap_err()
                .contains("only be filtered by select")
        );
        assert!(kept("order[ut]").is_err());
    }
}

//! Resources that cb.yaml names although neither it nor Corral knows them, because a sensor may
//! report them later. They are accepted with a warning that names them, and take effect when a
//! sensor reports them.

use super::read::Ctx;
use super::types::HostTable;
use crate::text::ParseError;
use crate::text::error::did_you_mean;
use crate::text::resreq::{
    AmountSteps, Direction, Kind, ResReq, ResourceDef, Resources, builtin, check_resource_name,
};
use crate::text::yaml::Pos;

/// Maximum number of such names in one requirement.
const NAMES_MAX: usize = 64;

/// The known resources, and names that sensors may define later.
struct ExpectedNames<'a> {
    hosts: &'a HostTable,
    names: &'a [String],
}

fn unknown(name: &str, kind: Kind) -> ResourceDef<'_> {
    ResourceDef {
        name,
        kind,
        direction: Direction::Decrease,
        reserve: true,
        steps: AmountSteps::Any,
        megabytes: true,
    }
}

impl Resources for ExpectedNames<'_> {
    fn find<'a>(&'a self, name: &'a str) -> Option<ResourceDef<'a>> {
        let expected = || self.names.iter().any(|known| known == name);
        let found = self.hosts.find(name);
        found.or_else(|| expected().then(|| unknown(name, Kind::Unknown)))
    }

    fn names(&self) -> Vec<&str> {
        self.hosts.names()
    }
}

/// Parses a requirement; returns it with the resources that are not known yet.
///
/// # Errors
/// Any other error in the requirement.
pub(super) fn parse(text: &str, hosts: &HostTable) -> Result<(ResReq, Vec<String>), ParseError> {
    let mut names: Vec<String> = Vec::new();
    let mut first: Option<ParseError> = None;
    loop {
        let expected = ExpectedNames {
            hosts,
            names: &names,
        };
        let e = match ResReq::parse(text, &expected) {
            Ok(req) => return Ok((req, names)),
            Err(e) => e,
        };
        let word = text.get(e.at..e.at + e.len).unwrap_or_default();
        let new = may_be_sensed(word) && expected.find(word).is_none();
        if !new || names.len() >= NAMES_MAX {
            return Err(first.unwrap_or(e));
        }
        names.push(word.to_owned());
        first.get_or_insert(e);
    }
}

/// A number that a sensor may report, in a limit or threshold.
pub(super) fn number<'a>(
    ctx: &mut Ctx<'_>,
    pos: Pos,
    name: &'a str,
    hosts: &HostTable,
) -> Option<ResourceDef<'a>> {
    if !may_be_sensed(name) {
        ctx.undefined(pos, "resource", name, hosts.names());
        return None;
    }
    warn(ctx, pos, name, hosts);
    Some(ResourceDef {
        megabytes: false,
        ..unknown(name, Kind::Number)
    })
}

fn may_be_sensed(name: &str) -> bool {
    builtin(name).is_none() && check_resource_name(name).is_ok()
}

/// Warns that a resource is not known yet.
pub(super) fn warn(ctx: &mut Ctx<'_>, pos: Pos, name: &str, hosts: &HostTable) {
    let near = did_you_mean(name, hosts.names());
    let message = format!(
        "resource {name:?} is not declared here: it counts as soon as a sensor reports it{near}"
    );
    ctx.warn(pos, "not-yet-known", message, None);
}

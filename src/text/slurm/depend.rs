//! Dependencies of `sbatch -d` and of PBS's `-W depend=` as conditions of `csub -w`.

use super::{SlurmJobId, shown};

/// Maximum number of ids of a dependency.
const IDS_MAX: usize = 1000;

/// The condition for a kind of dependency.
fn condition(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "after" => "started",
        "afterany" => "ended",
        "afterok" => "done",
        "afternotok" => "exit",
        _ => return None,
    })
}

const NO_AFTERCORR: &str = "'aftercorr' is not available: an element cannot wait for the \
     element of another array with its index; afterok:ID waits for the whole array, \
     afterok:ID_3 for one element";

/// The condition for `afterok:12:13,afterany:14`; with `?` in place of commas, one is enough.
/// `shift` returns by how much the indices of a job were increased.
///
/// # Errors
/// Names the kind that has no equivalent, or the invalid id.
pub fn dependency(
    text: &str,
    shift: &mut dyn FnMut(u32) -> Result<u32, String>,
) -> Result<String, String> {
    let (parts, between): (Vec<&str>, _) = match (text.contains('?'), text.contains(',')) {
        (true, true) => return Err("',' and '?' cannot be mixed".to_owned()),
        (true, false) => (text.split('?').collect(), " || "),
        _ => (text.split(',').collect(), " && "),
    };
    let mut all = Vec::new();
    for part in parts {
        let (kind, ids) = part.split_once(':').unwrap_or((part, ""));
        if kind == "aftercorr" {
            return Err(NO_AFTERCORR.to_owned());
        }
        let Some(test) = condition(kind) else {
            return Err(format!(
                "'{}' is not available: after, afterany, afterok and afternotok are",
                shown(kind)
            ));
        };
        if ids.is_empty() {
            return Err(format!("{kind}: a job id is missing"));
        }
        for id in ids.split(':') {
            if id.contains('+') {
                return Err(format!("{kind}: '+MINUTES' after an id is not available"));
            }
            let word = SlurmJobId::parse(id)?;
            let target = match &word.elements {
                None => word.id.to_string(),
                Some(_) => word.corral_id(shift(word.id)?)?,
            };
            all.push(format!("{test}({target})"));
        }
        if all.len() > IDS_MAX {
            return Err(format!("more than {IDS_MAX} job ids"));
        }
    }
    Ok(all.join(between))
}

/// The condition for PBS's `depend=afterok:12:13,afterany:14`. The part of an id after the first
/// dot names its server.
///
/// # Errors
/// As [`dependency`]; `before...` and `on` have no equivalent.
pub fn pbs_dependency(text: &str) -> Result<String, String> {
    let mut slurm = Vec::new();
    for part in text.split(',') {
        let (kind, ids) = part.split_once(':').unwrap_or((part, ""));
        if ids.contains('[') {
            return Err(format!("'{}': elements cannot be named", shown(ids)));
        }
        slurm.push(format!("{kind}:{ids}"));
    }
    dependency(&slurm.join(","), &mut |_| Ok(0))
}

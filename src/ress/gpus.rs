//! What the sensor `cbgpu` prints of a host's GPUs. Owns the names and units of its resources.

use crate::model::Gpu;
use std::fmt::Write as _;

/// Longest text of a value, bytes.
const TEXT_MAX: usize = 200;

/// Longest name of a unit.
const UNIT_MAX: usize = 64;

/// The document of these GPUs: the units by name, free MB of the emptiest, utilization of the
/// busiest (0 to 1), degrees of the hottest, processes on all, how many are parts (MIG), models.
pub fn document(gpus: &[Gpu]) -> String {
    let mut out = String::new();
    let mut put = |name: &str, attributes: &str, value: String| {
        let lines = write!(out, "- resource: {name}\n{attributes}  value: {value}\n");
        lines.expect("a string takes every write");
    };
    put("gpu", "", units(gpus));
    if let Some(mb) = gpus.iter().filter_map(|g| g.free_mb).max() {
        put("gpu_mem", "", mb.to_string());
    }
    if let Some(busy) = gpus.iter().filter_map(|g| g.busy).max() {
        let busy = busy.min(100);
        put("gpu_util", "", format!("{}.{:02}", busy / 100, busy % 100));
    }
    let more = |text: &str| format!("  description: {text}\n  direction: increase\n");
    if let Some(celsius) = gpus.iter().filter_map(|g| g.celsius).max() {
        let attributes = more("degrees Celsius of the hottest gpu");
        put("gpu_temp", &attributes, celsius.to_string());
    }
    if gpus.iter().any(|g| g.processes.is_some()) {
        let sum: u32 = gpus.iter().filter_map(|g| g.processes).sum();
        put(
            "gpu_procs",
            &more("processes that compute on gpus"),
            sum.to_string(),
        );
    }
    let parts = gpus.iter().filter(|g| g.part).count();
    let attributes = "  description: gpus that are parts of one (MIG)\n";
    put("gpu_mig", attributes, parts.to_string());
    let models = models(gpus);
    if !models.is_empty() {
        put("gpu_model", "  type: text\n", format!("\"{models}\""));
    }
    out.push_str("---\n");
    out
}

/// The names of the units as a list; one that jobs could not be given is left out.
fn units(gpus: &[Gpu]) -> String {
    let sound = |c: char| c.is_ascii_graphic() && !matches!(c, ',' | '"' | '\\');
    let fits = |name: &&str| !name.is_empty() && name.len() <= UNIT_MAX && name.chars().all(sound);
    let names = gpus.iter().map(|g| g.unit.as_str()).filter(fits);
    let names: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
    match names.is_empty() {
        true => "0".to_owned(),
        false => format!("[{}]", names.join(", ")),
    }
}

/// The models, each once, in the order of the GPUs. Without what YAML would read otherwise.
fn models(gpus: &[Gpu]) -> String {
    let mut all: Vec<String> = Vec::new();
    for gpu in gpus {
        let sound = |c: &char| !c.is_control() && !matches!(c, '"' | '\\');
        let model: String = gpu.model.chars().filter(sound).collect();
        let model = model.trim().to_owned();
        if !model.is_empty() && !all.contains(&model) {
            all.push(model);
        }
    }
    let mut text = all.join(", ");
    while text.len() > TEXT_MAX {
        text.pop();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ress::parse;

    #[test]
    fn a_document_says_what_jobs_can_ask_for_and_is_read_without_complaint() {
        let gpu = |model: &str, free_mb: u64, busy| Gpu {
            unit: format!("GPU-{free_mb}"),
            model: model.into(),
            free_mb: Some(free_mb),
            busy: Some(busy),
            celsius: Some(40 + busy),
            processes: Some(2),
            part: false,
        };
        let part = Gpu {
            unit: "MIG-1".into(),
            model: "One \"X\"\u{1b}".into(),
            part: true,
            ..Gpu::default()
        };
        let third = Gpu {
            unit: "0000:03:00.0".into(),
            ..gpu("One", 1, 0)
        };
        let text = document(&[gpu("One", 500, 7), gpu("Two", 900, 100), third, part]);
        let wanted = "- resource: gpu\n  \
             value: [\"GPU-500\", \"GPU-900\", \"0000:03:00.0\", \"MIG-1\"]\n\
             - resource: gpu_mem\n  value: 900\n\
             - resource: gpu_util\n  value: 1.00\n- resource: gpu_temp\n  \
             description: degrees Celsius of the hottest gpu\n  direction: increase\n  \
             value: 140\n- resource: gpu_procs\n  description: processes that compute on gpus\n  \
             direction: increase\n  value: 6\n- resource: gpu_mig\n  \
             description: gpus that are parts of one (MIG)\n  value: 1\n- resource: gpu_model\n  \
             type: text\n  value: \"One, Two, One X\"\n---\n";
        assert_eq!(text, wanted);
        let read = parse::document(text.trim_end_matches("---\n").as_bytes(), 1);
        assert_eq!(read.readings.len(), 7, "{:?}", read.problems);
        assert!(read.problems.is_empty(), "{:?}", read.problems);
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let bad = |unit: &str| Gpu {
            unit: unit.into(),
            ..Gpu::default()
        };
        let text = document(&[bad(""), bad("a b"), bad("a,b"), bad("\"")]);
        assert_eq!(text.matches("resource").count(), 2, "{text}");
        assert!(text.starts_with("- resource: gpu\n  value: 0\n"), "{text}");
    }
}

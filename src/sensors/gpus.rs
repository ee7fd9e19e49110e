//! The output of the sensor `cbgpu`. Owns the names and units of its resources.

use crate::model::{Gpu, ProcessUse};
use std::fmt::Write as _;

/// Maximum length of the text of a value in bytes.
const TEXT_MAX: usize = 200;

/// Maximum length of the name of a unit.
const UNIT_MAX: usize = 64;

/// Maximum number of listed processes of a unit.
const PROCESSES_MAX: usize = 256;

/// Maximum number of bytes for the processes of all units and their use: a sensor's line is limited
/// to 8 KiB.
const LIST_MAX: usize = 6_000;

/// The document for these GPUs: the units by name with their devices and processes, the memory of
/// each in MB, the utilization of the busiest (0 to 1), the temperature of the hottest in degrees,
/// the number of processes on all, the number of parts (MIG), the models. GPUs that jobs cannot be
/// assigned are omitted.
pub fn document(gpus: &[Gpu]) -> String {
    let gpus: Vec<&Gpu> = gpus.iter().filter(|gpu| is_assignable(&gpu.unit)).collect();
    let mut out = String::new();
    let mut put = |name: &str, attributes: &str, value: String| {
        let lines = write!(out, "- resource: {name}\n{attributes}  value: {value}\n");
        lines.expect("a string takes every write");
    };
    put("gpu", &of_units(&gpus), names(&gpus));
    if gpus.iter().any(|g| g.memory_mb.is_some()) {
        let each = gpus.iter().map(|g| g.memory_mb.unwrap_or(0).to_string());
        let sizes = each.collect::<Vec<_>>().join(", ");
        put("gpu_mem", "  per_unit: gpu\n", format!("[{sizes}]"));
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
        let all = gpus.iter().filter_map(|g| g.processes.as_ref());
        let sum: usize = all.map(Vec::len).sum();
        put(
            "gpu_procs",
            &more("processes that compute on gpus"),
            sum.to_string(),
        );
    }
    let parts = gpus.iter().filter(|g| g.part).count();
    let attributes = "  description: gpus that are parts of one (MIG)\n";
    put("gpu_mig", attributes, parts.to_string());
    let models = models(&gpus);
    if !models.is_empty() {
        put("gpu_model", "  type: text\n", format!("\"{models}\""));
    }
    out.push_str("---\n");
    out
}

/// Whether a unit can be assigned to jobs by this name.
fn is_assignable(name: &str) -> bool {
    let sound = |c: char| c.is_ascii_graphic() && !matches!(c, ',' | '"' | '\\');
    !name.is_empty() && name.len() <= UNIT_MAX && name.chars().all(sound)
}

/// The names of the units as a list.
fn names(gpus: &[&Gpu]) -> String {
    match gpus.is_empty() {
        true => "0".to_owned(),
        false => list(gpus.iter().map(|gpu| gpu.unit.clone())),
    }
}

fn list(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<String> = texts.map(|text| format!("\"{text}\"")).collect();
    format!("[{}]", texts.join(", "))
}

/// Device nodes and processes of the units, as far as known.
fn of_units(gpus: &[&Gpu]) -> String {
    let words = |each: Vec<String>| each.join(" ");
    let room = LIST_MAX / gpus.len().max(1);
    let mut out = String::new();
    if gpus.iter().any(|gpu| !gpu.devices.is_empty()) {
        let devices = |gpu: &&Gpu| words(gpu.devices.iter().map(ToString::to_string).collect());
        let text = list(gpus.iter().map(devices));
        let _ = writeln!(out, "  devices: {text}");
    }
    if gpus.iter().any(|gpu| gpu.processes.is_some()) {
        let each = |gpu: &&Gpu| gpu.processes.clone().unwrap_or_default();
        let pid = |process: &ProcessUse| process.pid.to_string();
        let text = list(gpus.iter().map(|gpu| listed(&each(gpu), room, pid)));
        let _ = writeln!(out, "  processes: {text}");
        let says_more = |gpu: &&Gpu| {
            each(gpu)
                .into_iter()
                .filter(ProcessUse::says_more)
                .collect()
        };
        let more: Vec<Vec<ProcessUse>> = gpus.iter().map(says_more).collect();
        if more.iter().any(|all| !all.is_empty()) {
            let text = list(
                more.iter()
                    .map(|all| listed(all, room, ToString::to_string)),
            );
            let _ = writeln!(out, "  use: {text}");
        }
    }
    out
}

/// As many of these words as fit into `room`.
fn listed(all: &[ProcessUse], room: usize, word: impl Fn(&ProcessUse) -> String) -> String {
    let mut out = String::new();
    for word in all.iter().take(PROCESSES_MAX).map(word) {
        if out.len() + 1 + word.len() > room {
            break;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&word);
    }
    out
}

/// The models, each listed once, in the order of the GPUs. Without characters that YAML would
/// interpret.
fn models(gpus: &[&Gpu]) -> String {
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
    use crate::sensors::parse;

    #[test]
    fn a_document_says_what_jobs_can_ask_for_and_is_read_without_complaint() {
        let gpu = |model: &str, memory_mb: u64, busy| Gpu {
            unit: format!("GPU-{memory_mb}"),
            model: model.into(),
            memory_mb: Some(memory_mb),
            devices: vec![format!("195:{memory_mb}").parse().unwrap()],
            busy: Some(busy),
            celsius: Some(40 + busy),
            processes: Some(vec![
                ProcessUse {
                    pid: memory_mb as u32,
                    util: Some(busy),
                    mem_mb: Some(70),
                },
                ProcessUse::of(7),
            ]),
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
        // A GPU without a valid name must not shift the values of the others.
        let nameless = Gpu {
            unit: "a b".into(),
            ..gpu("Bad", 3, 0)
        };
        let text = document(&[
            gpu("One", 500, 7),
            nameless,
            gpu("Two", 900, 100),
            third,
            part,
        ]);
        let wanted = "- resource: gpu\n  \
             devices: [\"195:500\", \"195:900\", \"195:1\", \"\"]\n  \
             processes: [\"500 7\", \"900 7\", \"1 7\", \"\"]\n  \
             use: [\"500:7:70\", \"900:100:70\", \"1:0:70\", \"\"]\n  \
             value: [\"GPU-500\", \"GPU-900\", \"0000:03:00.0\", \"MIG-1\"]\n\
             - resource: gpu_mem\n  per_unit: gpu\n  value: [500, 900, 1, 0]\n\
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
        let gpus = &read.readings[0].units;
        assert_eq!(gpus.devices[1], ["195:900"]);
        assert_eq!(
            (&gpus.processes[2][..], gpus.processes[3].len()),
            (&[1, 7][..], 0)
        );
        assert_eq!(gpus.used[1][0].util, Some(100));
        assert_eq!((gpus.used[1].len(), gpus.used[3].len()), (1, 0));
    }

    #[test]
    fn many_processes_are_cut_so_that_a_line_stays_short() {
        let process = |pid: u32| ProcessUse {
            pid: 4_000_000 + pid,
            util: Some(100),
            mem_mb: Some(80_000),
        };
        let gpu = |n: u32| Gpu {
            unit: format!("GPU-{n}"),
            processes: Some((0..1_000).map(process).collect()),
            ..Gpu::default()
        };
        let text = document(&(0..16).map(gpu).collect::<Vec<_>>());
        let longest = text.lines().map(str::len).max().unwrap();
        assert!(
            (4_000..crate::sensors::document_splitter::LINE_MAX).contains(&longest),
            "{longest}"
        );
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

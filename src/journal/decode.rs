//! Decodes events from JSON text, with a fast path for the frequent kinds.
//!
//! The tagged enum with flattened parts makes serde buffer each record as a tree first. For the
//! kinds that make up nearly all of a journal, flat mirrors of the same fields are read instead;
//! both ways must give the same value (a test compares them).

use crate::model::{AttemptId, Binding, HookOf, JobKey, Retry, Share, Stamp, TermReason, Units};
use crate::record::device_use::DeviceUse;
use crate::record::event::Event;
use crate::record::frame::{Damage, Line};
use crate::record::report::{CommandEnd, Ended, PartUse, TaskUse, Usage};
use crate::record::running_hook::RunningHook;
use serde::Deserialize;

#[derive(Deserialize)]
struct DispatchedFlat {
    j: JobKey,
    at: u32,
    t: Stamp,
    hosts: Vec<Share>,
    #[serde(default)]
    alt: u8,
    #[serde(default)]
    forced: bool,
    #[serde(default)]
    units: Vec<Units>,
}

#[derive(Deserialize)]
struct StartedFlat {
    j: JobKey,
    at: u32,
    pid: u32,
    t: Stamp,
    #[serde(default)]
    bind: Option<Box<Binding>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct EndedFlat {
    j: JobKey,
    at: u32,
    start: i64,
    t: i64,
    known: i64,
    retry: Option<Retry>,
    code: Option<i32>,
    success: bool,
    sig: i32,
    core: bool,
    reason: TermReason,
    oom: bool,
    elsewhere: bool,
    unclear: bool,
    no_account: bool,
    pre_failed: Option<HookOf>,
    post_failed: bool,
    text: String,
    parts: Vec<PartUse>,
    cpu_ms: u64,
    mem_kb: u64,
    maxmem_kb: u64,
    #[serde(rename = "hm")]
    host_maxmem_kb: u64,
    swap_kb: u64,
    maxswap_kb: u64,
    procs: u32,
    threads: u32,
    read_kb: u64,
    write_kb: u64,
    #[serde(rename = "dv")]
    devices: Option<Box<DeviceUse>>,
    pids: Vec<u32>,
    tasks: Vec<TaskUse>,
    #[serde(rename = "wu")]
    wrong_units: Vec<String>,
    #[serde(rename = "ce")]
    command_end: Option<Box<CommandEnd>>,
    #[serde(rename = "hk")]
    hook: Option<Box<RunningHook>>,
    requeue: bool,
    hold: bool,
}

impl From<EndedFlat> for Event {
    fn from(f: EndedFlat) -> Event {
        let u = Usage {
            cpu_ms: f.cpu_ms,
            mem_kb: f.mem_kb,
            maxmem_kb: f.maxmem_kb,
            host_maxmem_kb: f.host_maxmem_kb,
            swap_kb: f.swap_kb,
            maxswap_kb: f.maxswap_kb,
            procs: f.procs,
            threads: f.threads,
            read_kb: f.read_kb,
            write_kb: f.write_kb,
            devices: f.devices,
            pids: f.pids,
            tasks: f.tasks,
            wrong_units: f.wrong_units,
            command_end: f.command_end,
            hook: f.hook,
        };
        let e = Ended {
            a: AttemptId { j: f.j, at: f.at },
            start: f.start,
            t: f.t,
            pid: 0,
            known: f.known,
            retry: f.retry,
            code: f.code,
            success: f.success,
            sig: f.sig,
            core: f.core,
            reason: f.reason,
            oom: f.oom,
            elsewhere: f.elsewhere,
            unclear: f.unclear,
            no_account: f.no_account,
            pre_failed: f.pre_failed,
            post_failed: f.post_failed,
            text: f.text,
            parts: f.parts,
            u,
        };
        Event::Ended {
            e: Box::new(e),
            requeue: f.requeue,
            hold: f.hold,
        }
    }
}

/// Decodes one journal record.
///
/// # Errors
/// [`Damage::Content`] if the JSON is not an event that this program knows.
pub fn decode_event(line: &Line<'_>) -> Result<Event, Damage> {
    let json = line.json;
    let tag = json.strip_prefix(b"{\"k\":\"").unwrap_or_default();
    let content = |e: serde_json::Error| Damage::Content(e.to_string());
    if tag.starts_with(b"submitted\"") {
        return serde_json::from_slice(json)
            .map(Event::Submitted)
            .map_err(content);
    }
    if tag.starts_with(b"dispatched\"") {
        let f: DispatchedFlat = serde_json::from_slice(json).map_err(content)?;
        let a = AttemptId { j: f.j, at: f.at };
        let (t, hosts, alt, forced) = (f.t, f.hosts, f.alt, f.forced);
        return Ok(Event::Dispatched {
            a,
            t,
            hosts,
            alt,
            forced,
            units: f.units,
        });
    }
    if tag.starts_with(b"started\"") {
        let f: StartedFlat = serde_json::from_slice(json).map_err(content)?;
        let a = AttemptId { j: f.j, at: f.at };
        let (pid, t) = (f.pid, f.t);
        let bind = f.bind;
        return Ok(Event::Started { a, pid, t, bind });
    }
    if tag.starts_with(b"ended\"") {
        let f: EndedFlat = serde_json::from_slice(json).map_err(content)?;
        return Ok(f.into());
    }
    line.decode()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CpuSet, Token};
    use crate::record::event::Submitted;

    fn dispatched(a: AttemptId) -> [Event; 2] {
        [
            Event::Dispatched {
                a,
                t: Stamp(5),
                hosts: vec![Share("h".into(), 2), Share("i".into(), 1)],
                alt: 2,
                forced: true,
                units: vec![Units {
                    host: "h".into(),
                    res: "gpu".into(),
                    names: vec!["GPU-1".into(), "GPU-2".into()].into(),
                    places: vec![0, 3],
                    part: 250,
                    amounts: vec![("gpu_mem".into(), 1024)],
                }],
            },
            Event::Dispatched {
                a,
                t: Stamp(5),
                hosts: vec![Share("h".into(), 2)],
                alt: 0,
                forced: false,
                units: Vec::new(),
            },
        ]
    }

    fn full_end(a: AttemptId) -> Ended {
        Ended {
            a,
            start: 1,
            t: 2,
            // The leader does not record it.
            pid: 0,
            known: 5,
            retry: Retry::after(3, 5, 6),
            code: Some(3),
            success: true,
            sig: 4,
            core: true,
            reason: TermReason::Oom,
            oom: true,
            elsewhere: true,
            unclear: true,
            no_account: true,
            pre_failed: Some(HookOf::Queue),
            post_failed: true,
            text: "x \"y\"\n".into(),
            parts: vec![PartUse {
                host: "h2".into(),
                u: Usage {
                    cpu_ms: 8,
                    ..Usage::default()
                },
            }],
            u: Usage {
                cpu_ms: 1,
                mem_kb: 2,
                maxmem_kb: 3,
                host_maxmem_kb: 12,
                swap_kb: 4,
                maxswap_kb: 5,
                hook: Some(Box::default()),
                command_end: Some(Box::new(CommandEnd {
                    host: "h2".into(),
                    reason: TermReason::Oom,
                })),
                procs: 6,
                threads: 7,
                read_kb: 8,
                write_kb: 9,
                devices: Some(Box::new(DeviceUse {
                    gpu_util: 1,
                    gpu_mem_mb: 2,
                    max_gpu_mem_mb: 3,
                    gpu_ms: 4,
                    net_in_kb: 5,
                    net_out_kb: 6,
                })),
                pids: vec![1, 2],
                tasks: vec![TaskUse {
                    rank: 1,
                    section: "ps".into(),
                    replica: 2,
                    host: "h".into(),
                    pid: 3,
                    cpu_ms: 4,
                    mem_kb: 5,
                    ended: true,
                }],
                wrong_units: vec!["gpu 0 (process 7)".into()],
            },
        }
    }

    fn samples() -> Vec<Event> {
        let a = AttemptId {
            j: JobKey::element(7, 2),
            at: 3,
        };
        let submitted = Submitted {
            id: 1,
            s: 2,
            t: Stamp(3),
            command: "a é \u{1}".into(),
            name: "n".into(),
            array: "1-3".into(),
            array_limit: 4,
            hold: true,
            tok: Token(5),
            line: 6,
            key: "k".into(),
            cron: Some(Box::new(crate::record::cron::CronRun {
                uid: 7,
                name: "c".into(),
                due: Stamp(8),
                missed: 9,
                part: 1,
                parts: 3,
                first: 4,
            })),
        };
        let [gang, alone] = dispatched(a);
        vec![
            Event::Submitted(Box::new(submitted)),
            gang,
            alone,
            Event::Started {
                a,
                pid: 9,
                t: Stamp(6),
                bind: None,
            },
            Event::Started {
                a,
                pid: 9,
                t: Stamp(6),
                bind: Some(Box::new(Binding {
                    cpus: CpuSet::parse("0-3").unwrap(),
                    why: "x".into(),
                    ..Binding::default()
                })),
            },
            Event::Ended {
                e: Box::new(full_end(a)),
                requeue: true,
                hold: true,
            },
            Event::Ended {
                e: Box::new(Ended::default()),
                requeue: false,
                hold: false,
            },
            Event::Handled {
                tok: Token(1),
                t: Stamp(2),
            },
            Event::PartHandled {
                tok: Token(1),
                verb: 3,
                at: 4,
                within: 0,
                t: Stamp(2),
            },
        ]
    }

    #[test]
    fn the_short_way_gives_what_the_long_way_gives() {
        for event in samples() {
            let json = serde_json::to_vec(&event).unwrap();
            let line = Line {
                seq: 0,
                json: &json,
            };
            assert_eq!(decode_event(&line).as_ref(), Ok(&event));
            assert_eq!(line.decode::<Event>().as_ref(), Ok(&event));
        }
    }

    #[test]
    fn an_unknown_kind_is_named() {
        let line = Line {
            seq: 0,
            json: br#"{"k":"teleported"}"#,
        };
        let Err(Damage::Content(text)) = decode_event(&line) else {
            panic!("accepted");
        };
        assert!(text.contains("teleported"));
    }
}

//! The tasks of a job that starts a task for each slot: their number, their hosts, and the
//! environment of each. Owns the names of these variables. Starts nothing.
//!
//! The slots of a job are numbered in the order of its hosts, which is the order of its sections:
//! rank 0 is the first slot of the first section, on the job's first host.

use crate::model::{Launch, LaunchKind, Share, Spec};
use crate::text::resreq::{AnyResource, Body, Builtins, ResReq};
use std::collections::BTreeMap;

/// Maximum length of the list of a section's hosts in bytes: a longer one is omitted, since a
/// variable is limited to 128 KB. `CB_HOSTFILE` has the same content.
const LIST_MAX: usize = 64 << 10;
/// The address at which tasks find each other if all are on one host.
const LOOPBACK: &str = "127.0.0.1";

/// One task.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct RankedTask {
    pub rank: usize,
    /// Index of its section.
    pub section: usize,
    pub host: String,
    /// Variables in addition to the job's environment.
    pub env: Vec<(String, String)>,
}

/// Where the tasks of a job are.
#[derive(Clone, Copy, Debug)]
pub struct TaskPlaces<'a> {
    /// Hosts with their slots in order; a host may appear twice.
    pub hosts: &'a [(String, u32)],
    /// Slots of each section.
    pub sections: &'a [u32],
    /// First of the ports that were free on the first host: as many as the maximum number of tasks
    /// on one host.
    pub port: u16,
}

/// Program and arguments of a job that starts a task for each slot; those of another job are
/// unchanged.
pub(super) fn wrapped(spec: &Spec, bindir: &str, argv: Vec<String>) -> Vec<String> {
    let Some(launch) = spec.launch.as_deref() else {
        return argv;
    };
    let mut out = vec![format!("{bindir}/cb"), "ctasks".to_owned()];
    out.push(format!("--launch={}", launch.kind.word()));
    for section in &launch.sections {
        out.push(match section.command.as_str() {
            "" => format!("--section={}", section.name),
            command => format!("--section={}={command}", section.name),
        });
    }
    out.push("--".to_owned());
    out.extend(argv);
    out
}

/// Adds the sizes of sections, for a job that starts a task for each slot.
pub(super) fn put(out: &mut Vec<String>, spec: &Spec, hosts: &[Share]) {
    if spec.launch.is_none() {
        return;
    }
    let total = hosts.iter().map(|Share(_, n)| n).sum();
    // An invalid requirement was refused at submission.
    let sizes = section_slots(&spec.res_req, total).unwrap_or_default();
    let sizes: Vec<String> = sizes.iter().map(u32::to_string).collect();
    out.push(format!("CB_SECTIONS={}", sizes.join(" ")));
}

/// Slots of each section of a job with this requirement and this total number of slots.
///
/// # Errors
/// The sections differ between the alternatives.
pub fn section_slots(res_req: &str, total: u32) -> Result<Vec<u32>, String> {
    let all = ResReq::parse_stored(res_req, &AnyResource(&Builtins)).map_err(|e| e.to_string())?;
    let groups = |body: &Body| match body {
        Body::Simple(_) => vec![],
        Body::Groups { groups, .. } => groups.iter().map(|g| g.slots).collect(),
    };
    let mut sizes = all.alternatives.iter().map(|a| groups(&a.body));
    let first = sizes.next().unwrap_or_default();
    if sizes.any(|other| other != first) {
        return Err("the alternatives of its requirement have different sections".into());
    }
    Ok(if first.is_empty() { vec![total] } else { first })
}

/// A slot before its environment is known.
struct Slot<'a> {
    host: &'a str,
    section: usize,
    /// Its index in the section, and among the tasks of its host.
    replica: usize,
    local: usize,
}

fn slots<'a>(places: &TaskPlaces<'a>) -> Vec<Slot<'a>> {
    let each = places
        .hosts
        .iter()
        .flat_map(|(host, n)| (0..*n).map(move |_| host.as_str()));
    let mut sections = places.sections.iter().enumerate();
    let mut at = sections.next();
    let (mut replica, mut local) = (0, BTreeMap::<&str, usize>::new());
    let mut out = Vec::new();
    for host in each {
        // Additional slots of an elastic job belong to the last section.
        while let Some((n, size)) = at
            && replica >= *size as usize
            && n + 1 < places.sections.len()
        {
            (at, replica) = (sections.next(), 0);
        }
        let next_local = local.entry(host).or_default();
        out.push(Slot {
            host,
            section: at.map_or(0, |(n, _)| n),
            replica,
            local: *next_local,
        });
        (replica, *next_local) = (replica + 1, *next_local + 1);
    }
    out
}

/// Maximum number of tasks on one host.
pub fn most_on_one_host(places: &TaskPlaces<'_>) -> usize {
    let all = slots(places);
    all.iter().map(|slot| slot.local + 1).max().unwrap_or(0)
}

/// All tasks in the order of their ranks. A job of the kind `Mpi` has one task, which starts the
/// ranks itself.
///
/// # Errors
/// The sections do not fit the kind.
pub fn tasks(launch: &Launch, places: &TaskPlaces<'_>) -> Result<Vec<RankedTask>, String> {
    let names = launch.names(places.sections)?;
    let all = slots(places);
    let Some(first) = all.first() else {
        return Err("the job has no slots".into());
    };
    let alone = all.iter().all(|slot| slot.host == first.host);
    let address = |host: &str| match alone {
        true => LOOPBACK.to_owned(),
        false => host.to_owned(),
    };
    let hosts = hosts_of_sections(&names, &all);
    let mut out = Vec::with_capacity(all.len());
    for (rank, slot) in all.iter().enumerate() {
        let mut env = vec![
            ("CB_TASK".to_owned(), names[slot.section].clone()),
            ("CB_REPLICA".to_owned(), slot.replica.to_string()),
            ("CB_RANK".to_owned(), rank.to_string()),
            ("CB_LOCAL_RANK".to_owned(), slot.local.to_string()),
            ("CB_NTASKS".to_owned(), all.len().to_string()),
            ("CB_TASK_HOST".to_owned(), slot.host.to_owned()),
        ];
        env.extend(hosts.clone());
        let mut set = |name: &str, value: String| env.push((name.to_owned(), value));
        match launch.kind {
            LaunchKind::Tasks | LaunchKind::Mpi => {}
            LaunchKind::Torch => {
                let on_host = all.iter().filter(|other| other.host == slot.host).count();
                set("MASTER_ADDR", address(first.host));
                set("MASTER_PORT", places.port.to_string());
                set("RANK", rank.to_string());
                set("WORLD_SIZE", all.len().to_string());
                set("LOCAL_RANK", slot.local.to_string());
                set("LOCAL_WORLD_SIZE", on_host.to_string());
            }
            LaunchKind::Tf => {
                let address = |slot: &Slot<'_>| port_of(slot, &address(slot.host), places.port);
                set("TF_CONFIG", tf_config(&names, &all, slot, &address));
            }
            LaunchKind::Mxnet => {
                let of = |name: &str| {
                    let at = names.iter().position(|n| n == name).unwrap_or(0);
                    (at, all.iter().filter(|slot| slot.section == at).count())
                };
                let (scheduler, _) = of("scheduler");
                let root = all
                    .iter()
                    .find(|slot| slot.section == scheduler)
                    .unwrap_or(first);
                set("DMLC_ROLE", names[slot.section].clone());
                set("DMLC_PS_ROOT_URI", address(root.host));
                set("DMLC_PS_ROOT_PORT", places.port.to_string());
                set("DMLC_NUM_SERVER", of("server").1.to_string());
                set("DMLC_NUM_WORKER", of("worker").1.to_string());
                set("DMLC_WORKER_ID", slot.replica.to_string());
            }
        }
        out.push(RankedTask {
            rank,
            section: slot.section,
            host: slot.host.to_owned(),
            env,
        });
    }
    if launch.kind == LaunchKind::Mpi {
        out.truncate(1);
    }
    Ok(out)
}

/// `CB_HOSTS_name` of each section: a word for each of its slots.
fn hosts_of_sections(names: &[String], all: &[Slot<'_>]) -> Vec<(String, String)> {
    let list = |n: usize| {
        let hosts = all
            .iter()
            .filter(|slot| slot.section == n)
            .map(|slot| slot.host);
        hosts.collect::<Vec<_>>().join(" ")
    };
    let all = names
        .iter()
        .enumerate()
        .map(|(n, name)| (format!("CB_HOSTS_{name}"), list(n)));
    all.filter(|(_, list)| list.len() <= LIST_MAX).collect()
}

fn port_of(slot: &Slot<'_>, address: &str, first: u16) -> String {
    let local = u16::try_from(slot.local).unwrap_or(u16::MAX);
    format!("{address}:{}", first.saturating_add(local))
}

fn tf_config(
    names: &[String],
    all: &[Slot<'_>],
    own: &Slot<'_>,
    address: &dyn Fn(&Slot<'_>) -> String,
) -> String {
    let cluster: BTreeMap<&str, Vec<String>> = names
        .iter()
        .enumerate()
        .map(|(n, name)| {
            let slots = all.iter().filter(|slot| slot.section == n);
            (name.as_str(), slots.map(address).collect())
        })
        .collect();
    let task = serde_json::json!({"type": names[own.section], "index": own.replica});
    serde_json::json!({"cluster": cluster, "task": task}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TaskSection;

    fn of(kind: LaunchKind, hosts: &[(&str, u32)], sections: &[u32]) -> Vec<RankedTask> {
        let hosts: Vec<_> = hosts.iter().map(|(h, n)| ((*h).to_owned(), *n)).collect();
        let launch = Launch {
            kind,
            sections: vec![],
        };
        let places = TaskPlaces {
            hosts: &hosts,
            sections,
            port: 4000,
        };
        tasks(&launch, &places).unwrap()
    }

    fn get<'a>(task: &'a RankedTask, name: &str) -> &'a str {
        let found = task.env.iter().find(|(n, _)| n == name);
        found.map_or("", |(_, value)| value)
    }

    #[test]
    fn every_slot_is_a_task_that_knows_its_place() {
        // The second section begins on the host where the first one ends.
        let all = of(
            LaunchKind::Tasks,
            &[("h1", 2), ("h2", 1), ("h1", 1)],
            &[1, 3],
        );
        let of = |name: &str| {
            all.iter()
                .map(|t| get(t, name))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(of("CB_TASK"), "1 2 2 2");
        assert_eq!(of("CB_REPLICA"), "0 0 1 2");
        assert_eq!(of("CB_RANK"), "0 1 2 3");
        assert_eq!(of("CB_LOCAL_RANK"), "0 1 0 2");
        assert_eq!(of("CB_TASK_HOST"), "h1 h1 h2 h1");
        for task in &all {
            assert_eq!(get(task, "CB_NTASKS"), "4");
            assert_eq!(get(task, "CB_HOSTS_1"), "h1");
            assert_eq!(get(task, "CB_HOSTS_2"), "h1 h2 h1");
        }
    }

    #[test]
    fn torch_finds_its_master() {
        let all = of(LaunchKind::Torch, &[("h1", 2), ("h2", 1)], &[3]);
        let of = |name: &str| {
            all.iter()
                .map(|t| get(t, name))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(of("RANK"), "0 1 2");
        assert_eq!(of("LOCAL_RANK"), "0 1 0");
        assert_eq!(of("LOCAL_WORLD_SIZE"), "2 2 1");
        assert_eq!(of("MASTER_ADDR"), "h1 h1 h1");
        assert_eq!(get(&all[2], "MASTER_PORT"), "4000");
        assert_eq!(get(&all[2], "WORLD_SIZE"), "3");
        let alone = super::tests::of(LaunchKind::Torch, &[("h1", 2)], &[2]);
        assert_eq!(get(&alone[1], "MASTER_ADDR"), "127.0.0.1");
    }

    #[test]
    fn tensorflow_gets_the_whole_cluster() {
        let all = of(LaunchKind::Tf, &[("h1", 2), ("h2", 2)], &[1, 1, 2]);
        let read = |task: &RankedTask| -> serde_json::Value {
            serde_json::from_str(get(task, "TF_CONFIG")).unwrap()
        };
        let wanted = serde_json::json!({
            "cluster": {
                "chief": ["h1:4000"], "ps": ["h1:4001"], "worker": ["h2:4000", "h2:4001"],
            },
            "task": {"type": "worker", "index": 1},
        });
        assert_eq!(read(&all[3]), wanted);
        assert_eq!(read(&all[0])["task"]["type"], "chief");
    }

    #[test]
    fn mxnet_gets_roles_and_mpi_one_task() {
        let all = of(LaunchKind::Mxnet, &[("h1", 2), ("h2", 3)], &[1, 2, 2]);
        let last = &all[4];
        for (name, value) in [
            ("DMLC_ROLE", "worker"),
            ("DMLC_PS_ROOT_URI", "h1"),
            ("DMLC_PS_ROOT_PORT", "4000"),
            ("DMLC_NUM_SERVER", "2"),
            ("DMLC_NUM_WORKER", "2"),
            ("DMLC_WORKER_ID", "1"),
        ] {
            assert_eq!(get(last, name), value, "{name}");
        }
        assert_eq!(of(LaunchKind::Mpi, &[("h1", 2), ("h2", 3)], &[5]).len(), 1);
    }

    #[test]
    fn sections_follow_from_the_requirement() {
        let of = |text: &str| section_slots(text, 7);
        assert_eq!(of("").unwrap(), [7]);
        assert_eq!(of("select[mem>1] span[hosts=1]").unwrap(), [7]);
        assert_eq!(of("1{rusage[mem=1]} 3{}").unwrap(), [1, 3]);
        let same = "{2{select[mem>9]} 1{}} || {2{} 1{}}";
        if let Ok(slots) = of(same) {
            assert_eq!(slots, [2, 1]);
        }
    }

    #[test]
    fn a_job_that_is_launched_gets_the_starter_before_its_command() {
        let argv = || vec!["./train".to_owned(), "-x".to_owned()];
        let mut spec = Spec::default();
        assert_eq!(wrapped(&spec, "/b", argv()), argv());
        let sections = ["ps=./ps a=b", "worker"];
        spec.launch = Some(Box::new(Launch {
            kind: LaunchKind::Tf,
            sections: sections.map(|s| TaskSection::parse(s).unwrap()).to_vec(),
        }));
        spec.res_req = "1{rusage[mem=1]} 3{}".into();
        let wanted = [
            "/b/cb",
            "ctasks",
            "--launch=tf",
            "--section=ps=./ps a=b",
            "--section=worker",
            "--",
            "./train",
            "-x",
        ];
        assert_eq!(wrapped(&spec, "/b", argv()), wanted);
        let mut env = Vec::new();
        put(&mut env, &spec, &[Share("h1".into(), 4)]);
        assert_eq!(env, ["CB_SECTIONS=1 3"]);
    }

    #[test]
    fn a_long_list_is_left_out_and_another_number_of_sections_refused() {
        let name = "a-rather-long-name-of-a-host".to_owned();
        let hosts = [(name, 3000)];
        let launch = Launch::default();
        let places = TaskPlaces {
            hosts: &hosts,
            sections: &[3000],
            port: 1,
        };
        let all = tasks(&launch, &places).unwrap();
        assert_eq!((all.len(), get(&all[0], "CB_HOSTS_1")), (3000, ""));
        assert_eq!(most_on_one_host(&places), 3000);
        let launch = Launch {
            sections: vec![
                TaskSection::parse("a").unwrap(),
                TaskSection::parse("b").unwrap(),
            ],
            ..launch
        };
        assert!(tasks(&launch, &places).is_err());
        let empty = TaskPlaces {
            hosts: &[],
            ..places
        };
        assert!(tasks(&Launch::default(), &empty).is_err());
    }
}

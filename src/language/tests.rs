//! Tests of locales, of the matching of patterns, and that every reason of a job has a sentence.

use super::*;
use crate::model::{HostCounts, JobKey, NearestHost, PendReason, Retry, SelectMiss};
use crate::model::{SuspReason, TermReason};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

thread_local! {
    /// What a test's thread speaks in place of its process.
    static SPOKEN: Cell<Option<Language>> = const { Cell::new(None) };
}

pub(super) fn spoken_by_this_thread() -> Option<Language> {
    SPOKEN.get()
}

pub(super) fn in_chinese<T>(part: impl FnOnce() -> T) -> T {
    SPOKEN.set(Some(Language::Chinese));
    let out = part();
    SPOKEN.set(None);
    out
}

fn locale(vars: &[(&str, &str)]) -> Language {
    let vars: BTreeMap<&str, &str> = vars.iter().copied().collect();
    Language::of_locale(|name| vars.get(name).map(|text| (*text).to_owned()))
}

fn zh(text: &str) -> String {
    Language::Chinese.translate(text).into_owned()
}

/// Letters of a Chinese sentence.
fn is_chinese(text: &str) -> bool {
    text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c))
}

#[test]
fn the_first_variable_that_is_set_names_the_locale() {
    use Language::{Chinese, English};
    for (vars, want) in [
        (&[][..], English),
        (&[("LANG", "zh_CN.UTF-8")], Chinese),
        (&[("LANG", "zh_SG.utf8")], Chinese),
        (&[("LANG", "zh_CN.UTF-8@pinyin")], Chinese),
        (&[("LC_ALL", "C"), ("LANG", "zh_CN.UTF-8")], English),
        (&[("LC_ALL", ""), ("LANG", "zh_CN.UTF-8")], Chinese),
        (
            &[("LC_MESSAGES", "zh_CN.UTF-8"), ("LANG", "en_US.UTF-8")],
            Chinese,
        ),
        (&[("LC_CTYPE", "zh_CN.UTF-8")], English),
        // Not written in UTF-8, or in traditional characters.
        (&[("LANG", "zh_CN")], English),
        (&[("LANG", "zh_CN.GB18030")], English),
        (&[("LANG", "zh_TW.UTF-8")], English),
        (&[("LANG", "C.UTF-8")], English),
        (&[("LANG", "POSIX")], English),
        (&[("LANG", "de_DE.UTF-8")], English),
        (&[("LANG", "C.UTF-8"), ("LANGUAGE", "zh_CN")], English),
        (
            &[("LANG", "de_DE.UTF-8"), ("LANGUAGE", "de:zh_CN:en")],
            Chinese,
        ),
        (
            &[("LANG", "zh_CN.UTF-8"), ("LANGUAGE", "en_GB:zh_CN")],
            English,
        ),
        (&[("LANG", "zh_CN.UTF-8"), ("LANGUAGE", "fr")], Chinese),
        (&[("LANG", "zh_TW.UTF-8"), ("LANGUAGE", "zh_CN")], Chinese),
    ] {
        assert_eq!(locale(vars), want, "{vars:?}");
    }
}

#[test]
fn a_process_that_has_not_chosen_speaks_english() {
    assert_eq!(of_process(), Language::English);
    assert_eq!(translated("held by its owner"), "held by its owner");
}

#[test]
fn sentences_are_found_by_their_patterns() {
    for (english, chinese) in [
        ("held by its owner", "被属主保持"),
        ("queue a b is inactive", "队列 a b 未激活"),
        // What stands for a name holds no part of another sentence.
        ("-q: queue a: b is inactive", "-q: queue a: b is inactive"),
        ("Queue night is inactive", "队列 night 未激活"),
        ("csub: no command given", "csub: 没有给出命令"),
        ("No matching job found", "没有找到匹配的作业"),
        ("Job <12>: Permission denied", "作业 <12>：没有权限"),
        (
            "there is no queue \"medum\"; did you mean \"medium\"?",
            "没有队列 \"medum\"；是不是 \"medium\"？",
        ),
        ("there is no queue \"x\"", "没有队列 \"x\""),
        (
            "no free job slots: 2 hosts; unavailable: 1 host",
            "没有空闲槽位：2 台主机；不可用：1 台主机",
        ),
        // A sentence within a sentence; a name that is one is left alone.
        (
            "host held by its owner did not start it: no command given",
            "主机 held by its owner 没有启动它：没有给出命令",
        ),
        ("what nobody ever says", "what nobody ever says"),
        // A number is a number, and the entry with more words of its own wins.
        ("12 bytes", "12 字节"),
        ("twelve bytes", "twelve bytes"),
        ("LEADER: h1, epoch 7", "主调度器：h1，任期 7"),
        ("LEADER: h1", "主调度器：h1"),
        // Sentences one after the other; one that is not known leaves all as it is.
        (
            "Done successfully. The CPU time used is 0.5 seconds",
            "成功完成。所用 CPU 时间为 0.5 秒",
        ),
        (
            "Done successfully. What nobody ever says",
            "Done successfully. What nobody ever says",
        ),
        (
            "Job <7> is submitted to queue <normal>.",
            "Job <7> is submitted to queue <normal>.",
        ),
        ("", ""),
    ] {
        assert_eq!(zh(english), chinese, "{english}");
    }
}

#[test]
fn lines_are_looked_up_one_by_one_and_quotations_are_left_alone() {
    let text =
        "no command given\n  no command given\n  ^\n  hint: cb -h lists the commands\nmore\n";
    let want = "没有给出命令\n  no command given\n  ^\n  建议：cb -h 列出所有命令\nmore\n";
    assert_eq!(zh(text), want);
    let plain = "nothing of this\nis known\n";
    assert!(matches!(
        Language::Chinese.translate(plain),
        Cow::Borrowed(_)
    ));
}

#[test]
fn a_long_or_nested_text_costs_little() {
    let nested = "warning: ".repeat(4000);
    assert_eq!(zh(&nested), nested);
    for part in ["a: b; ", "no command given: ", "x (", "; ; : : ."] {
        let deep = format!("{}x", part.repeat(300));
        assert_eq!(zh(&deep), deep);
    }
}

#[test]
fn the_entries_are_whole_and_agree_in_what_varies() {
    let all = entries();
    let mut seen = BTreeSet::new();
    let lines = CATALOGUE
        .lines()
        .filter(|line| line.starts_with("msgid \""))
        .count();
    assert_eq!(
        all.len() + 1,
        lines,
        "an entry without its sentence, or a line that is not understood"
    );
    for entry in &all {
        let Entry {
            english,
            chinese,
            flag,
        } = entry;
        // Names of what varies do not distinguish two patterns.
        let shape: Vec<Option<String>> = pattern_parts(english)
            .iter()
            .map(|piece| match piece {
                PatternPart::Text(text) => Some((*text).to_owned()),
                PatternPart::Value(..) => None,
            })
            .collect();
        assert!(seen.insert(shape), "twice: {english}");
        assert!(!chinese.trim().is_empty(), "{english}");
        assert!(
            ["", "joint", "count", "clap", "system"].contains(flag),
            "{flag}: {english}"
        );
        assert!(
            !english.contains('\n') && !chinese.contains('\n'),
            "{english}"
        );
        let (values, used) = (values(english), values(chinese));
        let names = |values: &[(String, String)]| -> BTreeSet<String> {
            values.iter().map(|(name, _)| name.clone()).collect()
        };
        assert_eq!(names(&values), names(&used), "{english}\n{chinese}");
        for (name, how) in used {
            assert!(
                ["", "t", "T", "n", "-"].contains(&how.as_str()),
                "{{{name}:{how}}}: {chinese}"
            );
        }
    }
    assert!(all.len() > 2000, "the catalogue is not read: {}", all.len());
}

/// The names of what varies, those without a name by their numbers, and what follows the colon.
fn values(text: &str) -> Vec<(String, String)> {
    let mut unnamed = 0;
    let mut out = Vec::new();
    for piece in pattern_parts(text) {
        if let PatternPart::Value(name, how) = piece {
            let name = match name {
                "" => {
                    unnamed += 1;
                    (unnamed - 1).to_string()
                }
                name => name.to_owned(),
            };
            out.push((name, how.to_owned()));
        }
    }
    out
}

/// One reason of each kind.
#[allow(clippy::too_many_lines)] // a list
fn pending() -> Vec<PendReason> {
    use PendReason as R;
    let s = || "x1".to_owned();
    let hosts = HostCounts {
        closed: 1,
        unavailable: 2,
        full: 1,
        exclusive: 2,
        not_asked: 1,
        not_in_queue: 2,
        other_type: 1,
        select: 2,
        rusage: 1,
        user_limit: 2,
        queue_limit: 1,
        span: 2,
        window: 1,
        load: 2,
        recent: 1,
        slow: 2,
        no_server: 1,
        locked: 2,
        reserved: 2,
        ..HostCounts::default()
    };
    let near = |nearest, nearest_select| {
        let full = 1;
        R::Hosts(Box::new(HostCounts {
            full,
            nearest,
            nearest_select,
            ..HostCounts::default()
        }))
    };
    let nearest = NearestHost {
        host: s(),
        resource: s(),
        need: s(),
        left: s(),
    };
    let miss = |has: &str| SelectMiss {
        host: s(),
        part: s(),
        has: has.to_owned(),
    };
    let (limit, need, used, max) = (s, 1, 2, 3);
    let retry = Retry {
        at: 0,
        n: 1,
        of: 2,
        delay_s: 3,
    };
    vec![
        R::New,
        R::BeginTime {
            at: 1,
            when: String::new(),
        },
        R::BeginTime { at: 1, when: s() },
        R::Dependency { on: s() },
        R::DependencyNever {
            on: s(),
            why: String::new(),
        },
        R::DependencyNever {
            on: s(),
            why: "job 1 is DONE".into(),
        },
        R::ArrayLimit { limit: 1 },
        R::HeldByOwner,
        R::HeldByAdmin,
        R::Requeued,
        R::QueueInactive { queue: s() },
        R::QueueGone { queue: s() },
        R::QueueSlots {
            queue: s(),
            limit: 1,
        },
        R::QueueUserSlots {
            queue: s(),
            limit: 1,
        },
        R::QueueHostSlots {
            queue: s(),
            limit: 1,
        },
        R::UserSlots {
            user: s(),
            limit: 1,
        },
        R::SlotsNever {
            user: String::new(),
            queue: s(),
            need: 2,
            limit: 1,
        },
        R::SlotsNever {
            user: s(),
            queue: String::new(),
            need: 2,
            limit: 1,
        },
        R::SlotsNever {
            user: s(),
            queue: s(),
            need: 2,
            limit: 1,
        },
        R::NoSuchUser {
            user: s(),
            host: s(),
        },
        R::Retry(retry),
        R::Hosts(Box::new(hosts)),
        R::Hosts(Box::default()),
        near(Some(nearest), None),
        near(None, Some(miss("x2"))),
        near(None, Some(miss(""))),
        R::NeverFits {
            why: "it needs 1 slots in all, hosts it may use have 0".into(),
        },
        R::Slots { need: 1, free: 2 },
        R::DispatchWindow {
            queue: s(),
            at: 1,
            opens: s(),
        },
        R::RunWindow {
            queue: s(),
            at: 1,
            opens: s(),
        },
        R::RunWindowShort {
            queue: s(),
            need_s: 1,
            left_s: 2,
        },
        R::DeadlineShort {
            need_s: 1,
            left_s: 2,
        },
        R::TooNew {
            queue: s(),
            delay_s: 1,
        },
        R::Preempting { victims: 1 },
        R::Preempting { victims: 2 },
        R::Section {
            section: 1,
            need: 1,
            with: String::new(),
            free: 1,
        },
        R::Section {
            section: 1,
            need: 1,
            with: s(),
            free: 1,
        },
        R::HostRefused {
            host: s(),
            why: s(),
        },
        R::NoLeader,
        R::QuotaSlots {
            limit: limit(),
            consumer: String::new(),
            need,
            used,
            max,
        },
        R::QuotaSlots {
            limit: limit(),
            consumer: s(),
            need,
            used,
            max,
        },
        R::JobGroup {
            group: s(),
            used,
            max,
        },
        R::QuotaJobs {
            limit: limit(),
            consumer: s(),
            used,
            max,
        },
        R::QuotaResource {
            limit: limit(),
            consumer: s(),
            resource: s(),
            need,
            used,
            max,
        },
        R::QuotaNever {
            limit: limit(),
            consumer: s(),
            resource: s(),
            need,
            max,
        },
        R::SharedResource {
            resource: s(),
            need,
            used,
            max,
            never: false,
        },
        R::SharedResource {
            resource: s(),
            need,
            used,
            max,
            never: true,
        },
    ]
}

/// What is left of English in a sentence: words of letters alone that are no names of options.
fn english_words(text: &str) -> Vec<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_[]-#.".contains(c);
    let words = text.split(|c| !is_word(c)).filter(|word| word.len() > 2);
    let letters = |word: &&str| word.bytes().all(|c| c.is_ascii_lowercase());
    words.filter(letters).map(str::to_owned).collect()
}

#[test]
fn every_reason_of_a_job_has_a_sentence() {
    // Names of keys of cb.yaml and of commands.
    let names = ["server", "cresume", "span", "cchkpnt"];
    let check = |english: &str| {
        let output = zh(english);
        assert!(is_chinese(&output), "{english}");
        let mut left = english_words(&output);
        left.retain(|word| !names.contains(&word.as_str()) && word != "slots");
        assert!(left.is_empty(), "{left:?}: {english}\n{output}");
    };
    // A kind that is missing above would not be seen: the codes say how many there are.
    let codes: BTreeSet<u32> = pending().iter().map(PendReason::code).collect();
    assert_eq!(
        codes.len() + 1,
        36,
        "all but the text of a pre-exec command"
    );
    for why in pending() {
        check(&why.to_string());
    }
    let (queue, host) = ("q1".to_owned(), "h1".to_owned());
    let index = "r1m".to_owned();
    for why in [
        SuspReason::Preempted { by: JobKey::job(1) },
        SuspReason::RunWindow {
            queue: queue.clone(),
        },
        SuspReason::Threshold {
            index,
            value: 1,
            mark: 2,
            host,
        },
        SuspReason::StopCond { queue },
        SuspReason::Released {
            res: "q1".into(),
            amount: 2000,
        },
        SuspReason::Released {
            res: String::new(),
            amount: 0,
        },
    ] {
        check(&why.to_string());
    }
    use TermReason as T;
    for reason in [
        T::None,
        T::Owner,
        T::Admin,
        T::Force,
        T::RunLimit,
        T::CpuLimit,
        T::MemLimit,
        T::SwapLimit,
        T::ProcessLimit,
        T::Oom,
        T::Deadline,
        T::Requeue,
        T::Preempt,
        T::Load,
        T::Window,
        T::Checkpoint,
        T::HostLost,
        T::ShepherdLost,
        T::StartFailed,
        T::Fenced,
        T::Orphan,
        T::StartTimeout,
        T::Units,
        T::Replaced,
        T::Unknown,
    ] {
        check(reason.sentence());
    }
}

/// What the leader writes into its view, and what histories of jobs say: patterns that are put
/// together of other sentences.
#[test]
fn what_the_leader_warns_of_and_what_happened_to_jobs_is_said() {
    for (english, chinese) in [
        (
            "DISK FULL for 3 min: /s, 40 kB free, 2 of 4 parts of the reserve left: no submission \
             is accepted and no job is started until there is space; first failure: cannot write \
             /s/view/a: No space left on device",
            "磁盘已满 3 分钟：/s，剩余 40 kB，预留的 4 份还剩 2 份：有空间之前不接受提交，也不启动作业；\
             最初原因：无法写入 /s/view/a：设备上没有空间",
        ),
        (
            "orders cannot be written for 2 hosts, which get no work until then: h1: cannot write \
             /s/o: Permission denied; h2: cannot write /s/p: Permission denied; the leader tries \
             again. The cluster's account must be able to write hosts/<host>/; a directory that \
             does not belong to a host may be removed",
            "无法为 2 台主机写入指令，在此之前它们得不到作业：h1: 无法写入 /s/o：没有权限；\
             h2: 无法写入 /s/p：没有权限；主调度器会重试。集群的账号必须能写 hosts/<host>/；\
             不属于任何主机的目录可以删除",
        ),
        (
            "/s/j:9: dropped 7 bytes of a record that was never completed",
            "/s/j:9：丢弃未写完的记录的 7 字节",
        ),
        (
            "/s/r:90: damaged (the last line is incomplete); host h1 is ordered to repeat its \
             reports in another file",
            "/s/r:90：损坏（最后一行不完整）；已令主机 h1 在另一个文件中重复其汇报",
        ),
        (
            "Exited with exit code 3. It left a core dump. The CPU time used is 0.0 seconds; \
             TERM_OWNER: killed by its owner; requeued and held",
            "退出，退出码 3。留下了核心转储。所用 CPU 时间为 0.0 秒；TERM_OWNER: 被属主终止；\
             已重新排队并保持",
        ),
        (
            "Dispatched 3 Slot(s) on Host(s) <2*h1> <h2>, attempt 2",
            "派发到主机 <2*h1> <h2>，3 个槽位，第 2 次运行",
        ),
        (
            "Starting (Pid 7); bound to CPUs 0-3",
            "正在启动（Pid 7）；绑定到 CPU 0-3",
        ),
        (
            "Ended before its start by <u1>; TERM_OWNER: killed by its owner",
            "启动前结束，由 <u1>；TERM_OWNER: 被属主终止",
        ),
        (
            "Alarm: no command given; no command given",
            "告警：没有给出命令；没有给出命令",
        ),
        ("Requeued by <u1> and held", "被 <u1> 重新排队并保持"),
        (
            "Job <7> Pending: held by its owner",
            "作业 <7> 等待：被属主保持",
        ),
        (
            "Kill 2 jobs: waiting for the leader's answer (and 1 more)",
            "终止 2 个作业：正在等待主调度器应答（另有 1 个）",
        ),
    ] {
        assert_eq!(zh(english), chinese, "{english}");
    }
}

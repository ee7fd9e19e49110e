//! The languages of programs that are not commands of `cb`: help, refusals and answers by locale;
//! and that nothing on the share and in the logs depends on the locale.

use crate::cluster::{Cluster, text};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const ZH: &str = "zh_CN.UTF-8";
const C: &str = "C";

/// A program of the build.
fn program(name: &str) -> PathBuf {
    let programs = Path::new(env!("CARGO_BIN_EXE_cb")).parent().unwrap();
    programs.join(name)
}

/// A program in a locale, without a cluster.
fn command(name: &str, locale: &str) -> Command {
    let mut command = Command::new(program(name));
    for variable in ["LC_MESSAGES", "LANG", "LANGUAGE", "CB_ENVDIR", "CB_HOST"] {
        command.env_remove(variable);
    }
    command.env("LC_ALL", locale).env("COLUMNS", "100");
    command
}

fn run(name: &str, locale: &str, words: &[&str]) -> Output {
    command(name, locale).args(words).output().unwrap()
}

fn stdout(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

fn is_chinese(text: &str) -> bool {
    text.contains(|c: char| ('\u{4e00}'..='\u{9fff}').contains(&c))
}

#[test]
fn help_and_refusals_of_programs_are_in_the_language_of_the_locale() {
    let mut seen = 0;
    for (name, words) in [
        ("cbsched", &[][..]),
        ("cbsim", &[]),
        ("cbsim", &["trace"]),
        ("cbsim", &["when"]),
        ("cbsim", &["generate"]),
        ("cbsim", &["convert"]),
        ("cbsim", &["convert", "aleang"]),
        ("cbsim", &["convert", "openb"]),
        ("cbsim", &["faults"]),
        ("cbweb", &[]),
        ("cb-export", &[]),
        ("cbnotify", &[]),
    ] {
        if !program(name).exists() {
            // Of another package, which a build of this one alone does not make.
            continue;
        }
        seen += 1;
        for how in ["-h", "--help"] {
            let words: Vec<&str> = words.iter().copied().chain([how]).collect();
            let (zh, c) = (run(name, ZH, &words), run(name, C, &words));
            let (zh, c) = (stdout(&zh), stdout(&c));
            assert!(
                c.contains("Usage: ") && c.is_ascii(),
                "{name} {words:?}\n{c}"
            );
            assert!(
                zh.contains("用法：") && zh.contains("选项："),
                "{name}\n{zh}"
            );
            let english = [
                "Usage",
                "Options",
                "Print",
                "[default",
                "[possible",
                "Possible",
            ];
            for part in english {
                assert!(!zh.contains(part), "{part}: {name} {words:?}\n{zh}");
            }
        }
        let words: Vec<&str> = words.iter().copied().chain(["--nonsense"]).collect();
        let (zh, c) = (run(name, ZH, &words), run(name, C, &words));
        assert_eq!((zh.status.code(), c.status.code()), (Some(2), Some(2)));
        assert!(
            stderr(&zh).starts_with("错误：多余的参数"),
            "{name}: {}",
            text(&zh)
        );
        assert!(stderr(&c).starts_with("error: "), "{name}: {}", text(&c));
    }
    assert!(seen >= 9, "{seen}");
    for name in ["cbexe", "cbls", "cbgpu"] {
        let (zh, c) = (run(name, ZH, &["x", "y"]), run(name, C, &["x", "y"]));
        assert_eq!((zh.status.code(), c.status.code()), (Some(2), Some(2)));
        assert!(
            stderr(&zh).starts_with(&format!("用法：{name}")),
            "{}",
            text(&zh)
        );
        assert!(
            stderr(&c).starts_with(&format!("usage: {name}")),
            "{}",
            text(&c)
        );
    }
}

#[test]
fn a_daemon_says_in_the_language_of_the_locale_why_it_does_not_start() {
    let tmp = tempfile::tempdir().unwrap();
    let (share, local) = (tmp.path().join("share"), tmp.path().join("local"));
    std::fs::create_dir(&share).unwrap();
    let conf = format!(
        "CB_SHARE={}\nCB_HOST=h1\nCB_LOCAL={}\n",
        share.display(),
        local.display()
    );
    std::fs::write(tmp.path().join("cb.conf"), conf).unwrap();
    for name in ["cbsched", "cbls", "cbexe"] {
        let output = |locale| {
            let mut command = command(name, locale);
            let out = command.env("CB_ENVDIR", tmp.path()).output().unwrap();
            assert_eq!(out.status.code(), Some(2), "{name}: {}", text(&out));
            let all = text(&out);
            let start = format!("{name}: ");
            let line = all.lines().find(|line| line.starts_with(&start));
            let line = line.unwrap_or_else(|| panic!("{all}"));
            let why = &line[start.len()..];
            assert_eq!(all.matches(why).count(), 1, "said once: {all}");
            line.to_owned()
        };
        assert!(is_chinese(&output(ZH)), "{}", output(ZH));
        assert!(output(C).is_ascii(), "{}", output(C));
    }
}

/// Every file below a directory that has a Chinese character.
fn chinese_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            chinese_files(&path, found);
        } else if let Ok(bytes) = std::fs::read(&path)
            && is_chinese(&String::from_utf8_lossy(&bytes))
        {
            found.push(path);
        }
    }
}

#[test]
fn a_leader_in_a_chinese_locale_writes_and_logs_in_english() {
    let tmp = tempfile::tempdir().unwrap();
    let (share, config) = (tmp.path().join("share"), tmp.path().join("cb.yaml"));
    let yaml = "cluster: {name: c, administrators: root, masters: h1, allow_root_jobs: yes}\n\
                hosts:\n- {name: h1}\nqueues:\n- {name: q}\n";
    std::fs::write(&config, yaml).unwrap();
    let mut init = command("cb", C);
    let init = init
        .args(["cadmin", "init", "--config"])
        .args([&config, &share]);
    let out = init.output().unwrap();
    assert!(out.status.success(), "{}", text(&out));
    let conf = format!(
        "CB_SHARE={}\nCB_LOCAL={}\n",
        share.display(),
        tmp.path().join("local").display()
    );
    std::fs::write(tmp.path().join("cb.conf"), conf).unwrap();
    let log = tmp.path().join("cbsched.log");
    let mut leader = command("cbsched", ZH)
        .env("CB_ENVDIR", tmp.path())
        .env("CB_HOST", "h1")
        .stderr(Stdio::from(std::fs::File::create(&log).unwrap()))
        .spawn()
        .unwrap();
    let end = crate::patience::deadline();
    while !share.join("view/manifest.yaml").exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    let cb = |words: &[&str]| {
        let mut cb = command("cb", ZH);
        let cb = cb.env("CB_ENVDIR", tmp.path()).env("CB_HOST", "h1");
        text(&cb.args(words).output().unwrap())
    };
    let submitted = cb(&["csub", "-H", "true"]);
    let refused = cb(&["ckill", "99"]);
    let shown = cb(&["cjobs", "-p"]);
    leader.kill().unwrap();
    leader.wait().unwrap();
    assert!(submitted.contains("Job <1> is submitted"), "{submitted}");
    assert!(is_chinese(&refused), "{refused}");
    assert!(is_chinese(&shown), "{shown}");
    let mut found = Vec::new();
    chinese_files(&share, &mut found);
    assert!(found.is_empty(), "{found:?}");
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("INFO") && !is_chinese(&log), "{log}");
}

#[test]
fn cbsim_and_completion_speak_to_people_in_the_language_of_the_locale() {
    let cluster = Cluster::up("--hosts 1 --slots 1 --masters 1");
    let out = |locale, name: &str, words: &[&str]| {
        let mut command = command(name, locale);
        let command = command.env("CB_ENVDIR", cluster.dir().join("etc"));
        stdout(&command.args(words).output().unwrap())
    };
    cluster.csub(&["-H", "sleep 1"]);
    let when = out(ZH, "cbsim", &["when", "1"]);
    assert!(when.starts_with("1 永远不会启动："), "{when}");
    assert!(!when.contains("never"), "{when}");
    let json = ["when", "1", "--json"];
    assert_eq!(out(ZH, "cbsim", &json), out(C, "cbsim", &json));
    let mut none = command("cbsim", ZH);
    let none = none.env("CB_ENVDIR", cluster.dir().join("etc"));
    let none = stderr(&none.args(["when", "99"]).output().unwrap());
    assert!(none.contains("cbsim: 作业 99 不在等待或运行\n"), "{none}");
    let share = cluster.share();
    let trace = ["trace", "--from-state", share.to_str().unwrap()];
    let table = out(ZH, "cbsim", &trace);
    assert!(table.contains("平均等待时间，秒"), "{table}");
    // The simulated daemons are the same in every locale.
    let faults = ["faults", "--seed", "3", "--steps", "300"];
    let digest = |locale| out(locale, "cbsim", &[&faults[..], &["--trace"]].concat());
    let (zh, c) = (digest(ZH), digest(C));
    let trace = |text: &str| text.lines().filter(|line| !is_summary(line)).count();
    assert_eq!(trace(&zh), trace(&c));
    assert!(zh.contains("种子 3 变体 d11"), "{zh}");
    let cb = |locale, word: &str| out(locale, "cb", &["__complete", "zsh", word, "-"]);
    assert!(is_chinese(&cb(ZH, "cjobs")) && !is_chinese(&cb(C, "cjobs")));
    assert_eq!(cb(ZH, "bjobs"), cb(C, "bjobs"));
    // A busy machine does not find the names of the cluster in the moment that it has for that.
    let hosts = || out(ZH, "cb", &["__complete", "zsh", "chosts", ""]);
    let named = || hosts().contains("h1\tok，1 个槽位");
    crate::patience::until_or(named, hosts);
}

fn is_summary(line: &str) -> bool {
    line.starts_with("seed ") || line.starts_with("种子 ")
}

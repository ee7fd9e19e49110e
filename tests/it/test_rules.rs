//! What every test must be: able to fail, patient, and run by `sbin/check` or by a script that README
//! names. Reads the sources; knows no test by name.

use crate::source;
use std::collections::{BTreeMap, BTreeSet};

/// A function with a body.
struct Function {
    name: String,
    /// Its attributes and the rest of what stands before `fn`.
    head: String,
    body: String,
    /// Offset of `fn`.
    at: usize,
}

impl Function {
    fn is_test(&self) -> bool {
        self.head.contains("#[test]")
    }

    fn is_ignored(&self) -> bool {
        self.head.contains("#[ignore")
    }
}

/// All functions with a body in blanked text.
fn functions(blanked: &str) -> Vec<Function> {
    let mut out = Vec::new();
    for (at, word) in blanked.match_indices("fn ") {
        let (before, rest) = (&blanked[..at], &blanked[at + word.len()..]);
        let name: String = rest.chars().take_while(|c| is_name(*c)).collect();
        let Some(open) = rest.find(['{', ';']) else {
            continue;
        };
        if before.ends_with(is_name) || name.is_empty() || rest.as_bytes()[open] == b';' {
            continue;
        }
        let open = at + word.len() + open;
        let head = before.rfind(['{', '}', ';']).map_or(0, |end| end + 1);
        out.push(Function {
            name,
            head: before[head..].to_owned(),
            body: blanked[open..source::body_end(blanked, open)].to_owned(),
            at,
        });
    }
    out
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// What fails a test. A bare `unwrap` is not among them: most stand where a test is prepared.
const FAILS: &[&str] = &[
    "assert!",
    "assert_eq!",
    "assert_ne!",
    "panic!",
    "unreachable!",
    ".unwrap_err()",
    ".expect(",
    ".expect_err(",
];

fn fails_by_itself(f: &Function) -> bool {
    f.head.contains("should_panic") || FAILS.iter().any(|mark| f.body.contains(mark))
}

/// The part of the package in which helpers of tests are looked for by their names.
fn room(file: &str) -> &str {
    let end = file.match_indices('/').nth(1).map_or(file.len(), |m| m.0);
    &file[..end]
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_name(c)).filter(|word| !word.is_empty())
}

/// The tests that cannot fail, of files with blanked text: neither they nor a function that they
/// name, of the same file or of a test file of the same room, has an assertion.
fn toothless(files: &[(String, Vec<Function>)]) -> Vec<(&str, &Function)> {
    // Names of functions that can fail, by file, and by room for what test files share.
    let mut own: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut shared: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    loop {
        let mut found = Vec::new();
        for (file, functions) in files {
            for f in functions {
                let known = |set: Option<&BTreeSet<&str>>, w| set.is_some_and(|s| s.contains(w));
                let helper =
                    |w| known(own.get(file.as_str()), w) || known(shared.get(room(file)), w);
                let new = !known(own.get(file.as_str()), f.name.as_str());
                if new && (fails_by_itself(f) || words(&f.body).any(helper)) {
                    found.push((file, f));
                }
            }
        }
        if found.is_empty() {
            break;
        }
        for (file, f) in found {
            own.entry(file).or_default().insert(&f.name);
            if crate::tidy::is_test_file(file) {
                shared.entry(room(file)).or_default().insert(&f.name);
            }
        }
    }
    let all = files
        .iter()
        .flat_map(|(file, fs)| fs.iter().map(move |f| (file.as_str(), f)));
    all.filter(|(file, f)| f.is_test() && !own.get(file).is_some_and(|s| s.contains(&*f.name)))
        .collect()
}

fn all_functions() -> Vec<(String, Vec<Function>)> {
    let files = ["src", "tests"].map(|dir| source::files(dir, &["rs"]));
    let read = |file: String| {
        let found = functions(&source::blank(&source::read(&file)));
        (file, found)
    };
    files.into_iter().flatten().map(read).collect()
}

#[test]
fn every_test_can_fail() {
    let files = all_functions();
    let tests: usize = files
        .iter()
        .map(|(_, fs)| fs.iter().filter(|f| f.is_test()).count())
        .sum();
    assert!(tests > 1000, "the sources were not understood: {tests}");
    let line = |file: &str, f: &Function| source::line_of(&source::read(file), f.at);
    let wrong: Vec<String> = toothless(&files)
        .iter()
        .map(|(file, f)| format!("{file}:{}: {} asserts nothing", line(file, f), f.name))
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_test_that_cannot_fail_is_seen() {
    let text = "fn helps(a: u8) { assert!(a > 1); }\n\
                #[test]\nfn prepares() { open().unwrap(); }\n\
                #[test]\nfn by_a_helper() { (2..4).for_each(helps); }\n\
                #[test]\nfn by_itself() { assert_eq!(1, 1); }\n";
    let files = [("src/a/b.rs".to_owned(), functions(&source::blank(text)))];
    let names: Vec<&str> = toothless(&files)
        .iter()
        .map(|(_, f)| f.name.as_str())
        .collect();
    assert_eq!(names, ["prepares"]);
}

/// Which ignored tests one `cargo test` command runs.
#[derive(Default, Debug)]
struct Run {
    library: bool,
    exact: bool,
    filters: Vec<String>,
    skips: Vec<String>,
}

impl Run {
    fn runs(&self, library: bool, path: &str) -> bool {
        let fits = |filter: &String| match self.exact {
            true => path == filter,
            false => path.contains(filter),
        };
        library == self.library
            && (self.filters.is_empty() || self.filters.iter().any(fits))
            && !self.skips.iter().any(|skip| path.contains(skip.as_str()))
    }
}

/// The commands of a script that run ignored tests.
fn runs_of_ignored_tests(script: &str) -> Vec<Run> {
    let script = script.replace("\\\n", " ");
    let mut runs = Vec::new();
    for line in script.lines().map(str::trim) {
        let Some((_, command)) = line.split_once("cargo test ") else {
            continue;
        };
        let Some((build, test)) = command.split_once(" -- ") else {
            continue;
        };
        if line.starts_with('#') || !test.contains("--ignored") {
            continue;
        }
        let mut run = Run {
            library: build.contains("--lib"),
            ..Run::default()
        };
        let mut rest = test.split_whitespace();
        while let Some(word) = rest.next() {
            match word {
                "--exact" => run.exact = true,
                "--skip" => run.skips.extend(rest.next().map(str::to_owned)),
                option if option.starts_with("--") => {}
                filter => run.filters.push(filter.to_owned()),
            }
        }
        runs.push(run);
    }
    runs
}

/// The path by which libtest knows a test: the modules of its file, then its name. Modules inside
/// the file are left out but for `tests`, which every other file has.
fn libtest_path(file: &str, name: &str) -> String {
    let path = ["src/", "tests/it/"]
        .iter()
        .find_map(|p| file.strip_prefix(p));
    let path = path
        .unwrap_or(file)
        .trim_end_matches(".rs")
        .trim_end_matches("/mod");
    format!("{}::{name}", path.replace('/', "::"))
}

/// Scripts that the README names, with their texts.
fn scripts_of_the_readme() -> Vec<String> {
    let readme = source::read("README.md");
    let names = readme.split(|c: char| c.is_whitespace() || "`()".contains(c));
    let names = names.map(|word| word.trim_start_matches("./"));
    let scripts: BTreeSet<&str> = names
        .filter(|name| name.starts_with("sbin/") || name.ends_with(".sh"))
        .collect();
    scripts.into_iter().map(source::read).collect()
}

#[test]
fn every_ignored_test_is_run_by_a_script_that_the_readme_names() {
    let runs: Vec<Run> = scripts_of_the_readme()
        .iter()
        .flat_map(|text| runs_of_ignored_tests(text))
        .collect();
    assert!(runs.len() >= 4, "the scripts were not understood: {runs:?}");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (file, functions) in &all_functions() {
        for f in functions.iter().filter(|f| f.is_test() && f.is_ignored()) {
            seen += 1;
            let path = libtest_path(file, &f.name);
            if !runs.iter().any(|r| r.runs(file.starts_with("src/"), &path)) {
                wrong.push(format!(
                    "{file}: {path}: no script that README.md names runs it"
                ));
            }
        }
    }
    assert!(seen > 10, "the sources were not understood: {seen}");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_test_that_no_script_runs_is_seen() {
    let script = "step cargo test --lib -- --ignored\n\
                  cargo test --test it -- --ignored --skip slow::\n\
                  exec cargo test --test it -- --ignored --exact \\\n    slow::one\n\
                  cargo test --test it -- slow::three\n";
    let runs = runs_of_ignored_tests(script);
    assert_eq!(runs.len(), 3, "{runs:?}");
    let run = |library, path| runs.iter().any(|r| r.runs(library, path));
    assert!(run(true, "a::tests::speed") && run(false, "security::flood"));
    assert!(run(false, "slow::one") && !run(false, "slow::two") && !run(false, "slow::three"));
}

/// Files that wait for a time of their own: that nothing happens, that a load goes on, or not longer
/// for what no test needs.
const OWN_TIMES: &[&str] = &[
    "tests/it/claunch_hosts.rs",
    "tests/it/faults_calls.rs",
    "tests/it/patience.rs",
    "tests/it/security_box.rs",
    "tests/it/soak.rs",
    "tests/it/supervision.rs",
];

/// Lines (from 1) that give something a time of their own to happen, in blanked text.
fn impatient(blanked: &str) -> Vec<usize> {
    let lines: Vec<&str> = blanked.lines().collect();
    let waits = |n: usize| {
        let counts = ["for _ in 0..", "(0.."]
            .iter()
            .any(|mark| lines[n].contains(mark));
        let mut body = lines.iter().skip(n).take(LOOP_LINES);
        counts && body.any(|line| SLEEPS.iter().any(|mark| line.contains(mark)))
    };
    let is_deadline = |n: usize| lines[n].contains("Instant::now() +");
    let found = (0..lines.len()).filter(|n| is_deadline(*n) || waits(*n));
    found.map(|n| n + 1).collect()
}

/// Lines of a loop that looks again and again, and how it pauses.
const LOOP_LINES: usize = 8;
const SLEEPS: &[&str] = &["sleep(", "sleep_ms("];

/// A busy machine is slow for minutes: what must happen is waited for with one patience.
#[test]
fn what_must_happen_is_waited_for_with_patience() {
    let files = source::files("tests/it", &["rs"]);
    let files = files.iter().filter(|f| !OWN_TIMES.contains(&f.as_str()));
    let wrong: Vec<String> = files
        .flat_map(|file| {
            let found = impatient(&source::blank(&source::read(file)));
            found.into_iter().map(move |line| format!("{file}:{line}"))
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "use patience.rs in the place of limits:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn a_limit_that_a_busy_machine_exceeds_is_seen() {
    let text = "fn a() { let end = Instant::now() + Duration::from_secs(5); }\n\
                fn b() {\n    for _ in 0..50 {\n        look();\n        sleep_ms(20);\n    }\n}\n\
                fn c() {\n    for _ in 0..3 {\n        submit();\n    }\n\n\n\n\n\n\n    rest();\n}\n\
                fn d() { until(has_ended); }\n";
    assert_eq!(impatient(text), [1, 3]);
}

//! Mutation of well-formed inputs until something panics: `sbin/fuzz NAME [SECONDS [SEED]]`. Owns
//! the loop and the corpora; what must hold of an input is in its target. Built with overflow
//! checks. The input that was being tried is printed when a target panics, with the seed.

#![allow(clippy::disallowed_methods)] // measures with clocks

use corral::config::{Config, OsNames, require};
use corral::model::Spec;
use corral::text::names::{HostSet, NameSet};
use corral::text::resreq::{Builtins, HostFacts, ResReq, merge_all};
use corral::text::window::Windows;
use corral::text::{arrayspec::ArraySpec, depend, duration};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// One kind of input.
struct Target {
    name: &'static str,
    corpus: &'static [&'static str],
    /// Pieces that mutations put in.
    words: &'static [&'static str],
    run: fn(&Config, &str),
}

const TARGETS: [Target; 6] = [
    Target {
        name: "resreq",
        corpus: &[
            "select[mem>2G && (type==any || !ultrix)] order[-ut:mem] rusage[mem=1.5G/task]",
            "r15m=1.5:mem=20:swp=12:-server",
            "4{mem>10} 5{rusage[gpu=1]} span[ptile='!'] same[type:model]",
            "4*{mem>10} + 5*{} cu[type=rack:maxcus=2:pref=minavail:balance:usablecuslots=3]",
            "{mem>10} || {4{} 2{ut<1}}@120",
            "rusage[mem=50:duration=100:decay=1,swp=5 || lic=2/job]",
            "select[defined(lic), type==local, hname=='a b'] span[hosts=2,4]",
            "rack!=\"r 1\" && -mem < (1 + 2) * 3 / 4",
        ],
        words: &[
            "select[",
            "order[",
            "rusage[",
            "span[",
            "same[",
            "cu[",
            "]",
            "{",
            "}",
            "||",
            "&&",
            "@",
            "mem",
            "ut",
            "type",
            "lic",
            "fs",
            "rack",
            "defined(",
            "duration=",
            "hosts=",
            "'",
            "1e9",
            "99999999999",
            "4{",
            "+",
            "-",
            ":",
            ",",
            "==",
            "<=",
            "!",
            "(",
            ")",
            "G",
            "/job",
            "\u{e9}",
        ],
        run: resreq,
    },
    Target {
        name: "window",
        corpus: &[
            "18:00-8:00",
            "1:8:0-5:18:0 5:18:01-1:7:59",
            "6:00-7:30 9-10",
            "0:0:0-6:23:59",
        ],
        words: &[
            "-",
            ":",
            " ",
            "0",
            "24",
            "7",
            "59",
            "60",
            "00",
            "99999999999",
        ],
        run: |_, text| {
            if let Ok(windows) = Windows::parse(text) {
                assert_eq!(Windows::parse(&windows.to_string()), Ok(windows));
            }
        },
    },
    Target {
        name: "names",
        corpus: &[
            "h[01-64]+2 g1 ~h3 all",
            "others+1 h1",
            "u001 ~u002 @system",
            "g1@ all",
        ],
        words: &[
            "[",
            "]",
            "-",
            "+",
            "~",
            ",",
            "@",
            "all",
            "others",
            "0",
            "99999999999",
            " ",
        ],
        run: |_, text| {
            if let Ok(set) = HostSet::parse(text) {
                let _ = HostSet::parse_stored(&set.to_string()).expect("it reads what it wrote");
            }
            if let Ok(set) = NameSet::parse(text) {
                let _ = NameSet::parse_stored(&set.to_string()).expect("it reads what it wrote");
            }
        },
    },
    Target {
        name: "depend",
        corpus: &[
            "done(1) && (ended(2) || !exit(3,>=2))",
            "started(\"a*\") && numdone(4,>3)",
        ],
        words: &[
            "done(", "ended(", "exit(", ")", "&&", "||", "!", ",", ">=", "*", "\"", "[1-3]",
        ],
        run: |_, text| {
            if let Ok(expr) = depend::Expr::parse(text) {
                let _ = depend::Expr::parse_stored(&expr.to_string()).expect("it reads itself");
            }
        },
    },
    Target {
        name: "times",
        corpus: &["1h30m", "90s", "2:30", "1-10:2,15%3", "10", "1.5h"],
        words: &[
            "h",
            "m",
            "s",
            "d",
            ":",
            "-",
            ",",
            "%",
            "99999999999999999999",
            ".",
            "0",
        ],
        run: |_, text| {
            let _ = duration::parse_ms(text, duration::Bare::Minutes);
            let _ = duration::parse_s(text, duration::Bare::Seconds);
            let _ = ArraySpec::parse(text, 100_000);
        },
    },
    Target {
        name: "config",
        corpus: &[SITE, include_str!("../etc/cb.yaml")],
        words: &[
            "\n",
            "- ",
            ": ",
            "{",
            "}",
            "[",
            "]",
            "'",
            "name: ",
            "queues:\n",
            "limits:\n",
            "all ~u1",
            "'[2 1:8:0-5:18:0] [5 9:00-18:00]'",
            "per_user: all",
            "fairshare: '[a,1]'",
            "\t",
            "&a",
            "99999999999999999999",
            "-1",
            "null",
            "yes",
            "resources: [mem,5] [gpu, 2]",
            "\u{0}",
        ],
        run: |_, text| {
            let _ = corral::config::load(text.as_bytes(), "cb.yaml", &OsNames::ANY);
        },
    },
];

const SITE: &str = "\
cluster: {name: demo, administrators: [root]}
resources: [{name: lic, type: number, slotresource: yes}, {name: rack, type: text}]
hosts:
- {names: 'h[1-4]', slots: 4, tags: fs, resources: {lic: 2, gpu: 2, rack: r1}, unit: u1}
queues:
- {name: normal, priority: 30, res_req: 'select[mem>1] rusage[lic=1]'}
limits:
- {name: l1, queues: normal, users: all ~u001, slots: '[2 1:8:0-5:18:0] [5 5:18:01-1:7:59]'}
- {name: l2, per_user: all, resources: '[mem,5000] [gpu, 2]'}
";

/// A host with something of everything.
struct Host;

impl HostFacts for Host {
    fn number(&self, name: &str) -> Option<f64> {
        (name != "swp").then_some(name.len() as f64)
    }
    fn text(&self, name: &str) -> Option<&str> {
        (name != "rack").then_some("X")
    }
    fn tag(&self, name: &str) -> bool {
        name == "fs"
    }
}

/// What is accepted is printed, read back to the same, merged and evaluated.
fn resreq(config: &Config, text: &str) {
    let _ = merge_all(&["mem>1 rusage[tmp=1]", text], &Builtins);
    let _ = ResReq::parse_stored(text, config);
    let Ok(req) = ResReq::parse(text, config) else {
        return;
    };
    let printed = req.to_string();
    assert_eq!(
        ResReq::parse_stored(&printed, config),
        Ok(req.clone()),
        "{printed}"
    );
    let _ = req.features();
    for alternative in &req.alternatives {
        for (_, part) in alternative.body.effective() {
            let _ = part.select.as_ref().map(|select| select.accepts(&Host));
            let _ = part
                .rusage
                .iter()
                .flatten()
                .map(|u| u.amount_after(7))
                .sum::<u64>();
        }
    }
    let Ok(res_req) = require::check_request(text, config) else {
        return;
    };
    let _ = require::slots_of(&res_req, config);
    let spec = Spec {
        res_req,
        queue: "normal".into(),
        ..Spec::default()
    };
    let queue = config.queue("normal").and_then(|q| q.res_req.as_deref());
    let _ = require::Request::new(&spec, queue, config);
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }

    /// A place between two characters.
    fn cut(&mut self, text: &str) -> usize {
        let mut at = self.roll(text.len() + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }
}

fn mutate(dice: &mut Dice, target: &Target, text: &mut String) {
    for _ in 0..=dice.roll(4) {
        let (a, b) = (dice.cut(text), dice.cut(text));
        let (a, b) = (a.min(b), a.max(b));
        match dice.roll(6) {
            0 => text.truncate(a),
            1 => {
                let near = Some(a + 8).filter(|at| *at < b && text.is_char_boundary(*at));
                text.replace_range(a..near.unwrap_or(b), "");
            }
            2 => {
                let piece = text[a..b].to_owned();
                let at = dice.cut(text);
                text.insert_str(at, &piece);
            }
            3 => text.insert(a, char::from(32 + dice.roll(95) as u8)),
            4 => {
                let other = target.corpus[dice.roll(target.corpus.len())];
                let at = dice.cut(other);
                text.insert_str(a, &other[at..]);
            }
            _ => text.insert_str(a, target.words[dice.roll(target.words.len())]),
        }
        if text.len() > 4096 {
            let at = (0..=4096).rev().find(|at| text.is_char_boundary(*at));
            text.truncate(at.unwrap_or(0));
        }
    }
}

fn fuzz(target: &Target, config: &Config, seconds: u64, seed: u64) -> bool {
    let mut dice = Dice(seed | 1);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut tried, mut slowest) = (0u64, Duration::ZERO);
    let mut pool: Vec<String> = target.corpus.iter().map(|t| (*t).to_owned()).collect();
    while Instant::now() < end {
        let mut text = pool[dice.roll(pool.len())].clone();
        mutate(&mut dice, target, &mut text);
        let begun = Instant::now();
        let ran = catch_unwind(AssertUnwindSafe(|| (target.run)(config, &text)));
        slowest = slowest.max(begun.elapsed());
        tried += 1;
        if ran.is_err() {
            println!(
                "{}: seed {seed} input {tried} panics: {text:?}",
                target.name
            );
            return false;
        }
        // Mutations of mutations, now and then.
        if dice.roll(64) == 0 {
            match pool.len() {
                0..256 => pool.push(text),
                n => pool[target.corpus.len() + dice.roll(n - target.corpus.len())] = text,
            }
        }
    }
    println!(
        "{}: {tried} inputs in {seconds} s, seed {seed}, slowest {} us",
        target.name,
        slowest.as_micros()
    );
    true
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let number = |at: usize| words.get(at).and_then(|w| w.parse::<u64>().ok());
    let name = words.first().map_or("all", String::as_str);
    let (seconds, seed) = (number(1).unwrap_or(60), number(2).unwrap_or(1));
    let chosen: Vec<&Target> = TARGETS
        .iter()
        .filter(|t| name == "all" || t.name == name)
        .collect();
    if chosen.is_empty() {
        let known: Vec<&str> = TARGETS.iter().map(|t| t.name).collect();
        eprintln!("fuzz: no target {name}; there are all {}", known.join(" "));
        return ExitCode::from(2);
    }
    let loaded = corral::config::load(SITE.as_bytes(), "cb.yaml", &OsNames::ANY);
    let config = loaded.unwrap_or_else(|p| panic!("{}", p[0])).config;
    let each = seconds.div_ceil(chosen.len() as u64);
    let fine = chosen
        .iter()
        .all(|target| fuzz(target, &config, each, seed));
    ExitCode::from(u8::from(!fine))
}

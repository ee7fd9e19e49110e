//! Texts that parsers of floor 1 and 2 read: requirement strings, time windows, names, dependency
//! expressions, durations, what sensors print, cb.yaml. Owns their corpora, and what must hold of
//! what is accepted.

use super::{Dice, Target};
use corral::config::{Config, OsNames, ResourceKind, require};
use corral::model::Spec;
use corral::record::load::{self, LoadDoc};
use corral::sensors::{cluster_resources, document_splitter, parse, sensor_files, sensor_values};
use corral::text::names::{HostSet, NameSet};
use corral::text::resreq::{Builtins, HostFacts, ResReq, merge_all};
use corral::text::window::Windows;
use corral::text::{arrayspec::ArraySpec, depend, duration};

/// One kind of input.
pub struct Grammar {
    pub name: &'static str,
    corpus: &'static [&'static str],
    /// Pieces that mutations put in.
    words: &'static [&'static str],
    run: fn(&Config, &str),
}

pub const GRAMMARS: [Grammar; 7] = [
    Grammar {
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
    Grammar {
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
    Grammar {
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
    Grammar {
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
    Grammar {
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
            let _ = duration::parse_ms(text, duration::DefaultUnit::Minutes);
            let _ = duration::parse_s(text, duration::DefaultUnit::Seconds);
            let _ = ArraySpec::parse(text, 100_000);
        },
    },
    Grammar {
        name: "sensors",
        corpus: &[
            "- resource: clksnd\n description: The second\n type: number\n direction: increase\n \
             value: 07\n locale: master node01\n---\n",
            "- resource: gpu\n  value: 4\n- resource: lic\n  type: number\n  slotresource: yes\n  \
             release: no\n  value: '3'\n  locale: all\n---\n- {name: os, value: Debian 12}\n",
            "---\n  -\n    resource: t\n    type: tag\n    value: on\n    locale: [h1, h2]\n...\n\
             [{\"resource\": \"j\", \"type\": \"text\", \"value\": \"x\"}]\n",
            "resource: one\nassign: no\nvalue: 1.5e3\ndescription: |\n  two\n  lines\n",
        ],
        words: &[
            "- ",
            "\n",
            "\n---\n",
            "...",
            "resource: ",
            "name: ",
            "value: ",
            "type: ",
            "number",
            "text",
            "tag",
            "locale: ",
            "all",
            "assign: yes",
            "slotresource: ",
            "release: ",
            "direction: increase",
            "description: ",
            "mem",
            "gpu",
            "  ",
            "\t",
            "#",
            "'",
            "\"",
            "[",
            "]",
            "{",
            "}",
            "&a",
            "*a",
            "!!int",
            "|",
            ">",
            "? ",
            ": ",
            "1e400",
            ".inf",
            "99999999999999999999",
            "\u{0}",
            "\u{e9}",
        ],
        run: sensors,
    },
    Grammar {
        name: "config",
        corpus: &[SITE, include_str!("../../etc/cb.yaml")],
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

/// A sensor's whole way: cut, read, kept, reported, defined; whatever it prints, its host can
/// report it and the leader can use it.
fn sensors(config: &Config, text: &str) {
    let pieces = document_splitter::all(text.as_bytes());
    let (mut slowly, mut out) = (document_splitter::Splitter::new(), Vec::new());
    for (n, byte) in text.bytes().enumerate() {
        slowly.push(&[byte], n as u64, &mut out);
    }
    slowly.end(&mut out);
    assert_eq!(out, pieces, "documents depend on how the stream arrives");
    let name = "ress.host".to_owned();
    let role = sensor_files::Role::Host;
    let (sensor, mut board) = (
        sensor_files::Sensor { name, role },
        sensor_values::SensorValues::new(),
    );
    for piece in pieces {
        let document_splitter::StreamPart::Document { bytes, line } = piece else {
            continue;
        };
        let parsed = parse::document(&bytes, line);
        let lines = line + bytes.iter().filter(|b| **b == b'\n').count() as u64;
        for p in &parsed.problems {
            assert!(p.line >= line && p.line <= lines, "{p}");
        }
        board.take_document(&sensor, parsed, line);
    }
    let (report, _) = board.report(1);
    let mut doc = LoadDoc::default();
    doc.sensors.clone_from(&report);
    let bytes = load::encode(&doc).expect("it fits");
    let read = load::decode(&bytes).expect("it can be read");
    assert_eq!(read, doc);
    let mut gather = cluster_resources::ClusterResources::default();
    gather.take_report("h1", Some(read.sensors));
    let mut config = config.clone();
    config.hosts.sensed = gather.define(&config, 1).unwrap_or_default();
    let values = gather.values("h1", &config).values;
    for (name, value) in &values {
        let kind = config.hosts.resource(name).map(|decl| decl.kind);
        let number = kind == Some(ResourceKind::Number);
        assert!(!number || parse::number(value).is_some(), "{name}: {value}");
        let _ = require::check_request(&format!("rusage[{name}=1]"), &config);
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
    for alternative in &req.alternatives {
        for (_, part) in alternative.body.effective() {
            let _ = part.select.as_ref().map(|select| select.accepts(&Host));
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

fn mutate(dice: &mut Dice, grammar: &Grammar, text: &mut String) {
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
                let other = grammar.corpus[dice.roll(grammar.corpus.len())];
                let at = dice.cut(other);
                text.insert_str(a, &other[at..]);
            }
            _ => text.insert_str(a, grammar.words[dice.roll(grammar.words.len())]),
        }
        if text.len() > 4096 {
            let at = (0..=4096).rev().find(|at| text.is_char_boundary(*at));
            text.truncate(at.unwrap_or(0));
        }
    }
}

/// A grammar being tried.
pub struct Texts {
    grammar: &'static Grammar,
    config: Config,
    pool: Vec<String>,
    text: String,
}

impl Texts {
    pub fn new(grammar: &'static Grammar) -> Texts {
        let loaded = corral::config::load(SITE.as_bytes(), "cb.yaml", &OsNames::ANY);
        Texts {
            grammar,
            config: loaded.unwrap_or_else(|p| panic!("{}", p[0])).config,
            pool: grammar.corpus.iter().map(|t| (*t).to_owned()).collect(),
            text: String::new(),
        }
    }
}

impl Target for Texts {
    fn make(&mut self, dice: &mut Dice) {
        // Mutations of mutations, now and then.
        if dice.roll(64) == 0 && !self.text.is_empty() {
            let old = self.text.clone();
            match self.pool.len() {
                0..256 => self.pool.push(old),
                n => {
                    let kept = self.grammar.corpus.len();
                    self.pool[kept + dice.roll(n - kept)] = old;
                }
            }
        }
        self.text = self.pool[dice.roll(self.pool.len())].clone();
        mutate(dice, self.grammar, &mut self.text);
    }

    fn run(&mut self) {
        (self.grammar.run)(&self.config, &self.text);
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        vec![("text".into(), self.text.clone().into_bytes())]
    }
}

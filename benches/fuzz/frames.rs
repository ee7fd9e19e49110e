//! Mutations of framed files: records with other content under right checksums, wrong checksums,
//! impossible lengths, other orders, foreign records, cuts, flipped bytes. Owns no target.

use super::Dice;
use corral::record::frame;
use serde_json::Value;

/// Values that numbers are exchanged for.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "255",
    "256",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "-9223372036854775808",
    "1.5",
    "1e300",
];

/// Texts that texts are exchanged for.
const TEXTS: &[&str] = &[
    "",
    "0",
    "1",
    "h1",
    "h9",
    "1[2]",
    "4294967295[4294967295]",
    "../../etc/passwd",
    "/tmp",
    "line\nline",
    "\u{0}",
    "\u{1b}[2J",
    "\u{e9}\u{202e}",
    "- {\"k\":\"header\"} #0 2 00000000",
    "all",
    "normal",
    "PEND",
    "1-10:2,15",
    "1-1000000",
    "done(1)",
    "select[mem>1] rusage[mem=18446744073709551615]",
    "{4*{} 2{ut<1}}@120",
];

/// A document that is YAML and no JSON, or JSON of a shape nobody asked for.
const PAYLOADS: &[&str] = &[
    "k: header",
    "&a [*a]",
    "!!binary x",
    "[]",
    "null",
    "{}",
    "\"k\"",
    "{\"k\":\"header\",\"k\":\"spec\"}",
    "{\"k\":\"next\",\"part\":18446744073709551615}",
    "{\"k\":\"epoch\",\"epoch\":18446744073709551615,\"host\":\"h\",\"pid\":1,\"t\":1}",
    "{\"k\":\"seal\",\"epoch\":1,\"segment\":1,\"bytes\":9223372036854775808,\"next_seq\":1}",
];

/// The records of an intact file, without their frames.
pub fn split(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = frame::Reader::new(bytes);
    let mut out = Vec::new();
    while let Some(line) = reader.next_line().expect("the file is intact") {
        out.push(line.json.to_vec());
    }
    out
}

/// Frames records in order.
pub fn join(records: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for (seq, json) in (0u64..).zip(records) {
        frame::write_json(&mut out, seq, json);
    }
    out
}

/// Changes records: `foreign` are records of other files.
pub fn records(dice: &mut Dice, own: &mut Vec<Vec<u8>>, foreign: &[Vec<u8>]) {
    for _ in 0..=dice.roll(3) {
        let at = dice.roll(own.len());
        match dice.roll(8) {
            0 if !own.is_empty() => drop(own.remove(at)),
            1 if !own.is_empty() => own.insert(dice.roll(own.len()), own[at].clone()),
            2 if !own.is_empty() => {
                let other = dice.roll(own.len());
                own.swap(at, other);
            }
            3 if !foreign.is_empty() => {
                own.insert(at, foreign[dice.roll(foreign.len())].clone());
            }
            4 if dice.roll(4) == 0 => {
                let text = PAYLOADS[dice.roll(PAYLOADS.len())];
                own.insert(at, text.as_bytes().to_vec());
            }
            _ if !own.is_empty() => content(dice, &mut own[at]),
            _ => {}
        }
    }
}

/// Changes the content of one record; what comes out is one line, nearly always JSON.
fn content(dice: &mut Dice, json: &mut Vec<u8>) {
    let Ok(mut value) = serde_json::from_slice::<Value>(json) else {
        return;
    };
    for _ in 0..=dice.roll(2) {
        let count = nodes(&value);
        let mut left = dice.roll(count);
        change(dice, &mut value, &mut left);
    }
    *json = print(&value);
    if dice.roll(40) == 0 {
        let at = dice.roll(json.len());
        let deep = 1 << dice.roll(15);
        json.splice(at..at, std::iter::repeat_n(b'[', deep));
    }
    json.retain(|b| *b != b'\n');
}

fn nodes(value: &Value) -> usize {
    1 + match value {
        Value::Array(all) => all.iter().map(nodes).sum::<usize>(),
        Value::Object(all) => all.values().map(nodes).sum(),
        _ => 0,
    }
}

/// Bytes of all copies of a part of an input.
const COPIES_MAX: usize = 8 << 20;

/// Changes the node that stands `left` nodes behind this one.
fn change(dice: &mut Dice, value: &mut Value, left: &mut usize) -> bool {
    if *left == 0 {
        alter(dice, value);
        return true;
    }
    *left -= 1;
    match value {
        Value::Array(all) => all.iter_mut().any(|v| change(dice, v, left)),
        Value::Object(all) => all.values_mut().any(|v| change(dice, v, left)),
        _ => false,
    }
}

fn alter(dice: &mut Dice, value: &mut Value) {
    let number = |dice: &mut Dice| {
        let text = NUMBERS[dice.roll(NUMBERS.len())];
        serde_json::from_str(text).expect("a number")
    };
    let text = |dice: &mut Dice| match dice.roll(30) {
        0 => Value::from("x".repeat(1 << dice.roll(20))),
        _ => Value::from(TEXTS[dice.roll(TEXTS.len())]),
    };
    match value {
        Value::Number(_) if dice.roll(8) > 0 => *value = number(dice),
        Value::String(old) if dice.roll(8) > 0 => match dice.roll(3) {
            0 => *value = text(dice),
            1 => {
                let at = dice.cut(old);
                old.insert_str(at, TEXTS[dice.roll(TEXTS.len())]);
            }
            _ => {
                let at = dice.cut(old);
                old.truncate(at);
            }
        },
        Value::Array(all) if !all.is_empty() && dice.roll(2) == 0 => {
            let at = dice.roll(all.len());
            match dice.roll(3) {
                0 => drop(all.remove(at)),
                1 => all.push(all[at].clone()),
                _ => {
                    // No more than a request may have: the copies count, not the tool.
                    let most = COPIES_MAX / all[at].to_string().len().max(1);
                    let n = (1 << dice.roll(17)).min(most.max(1));
                    all.resize(n, all[at].clone());
                }
            }
        }
        Value::Object(all) if !all.is_empty() && dice.roll(4) > 0 => {
            let key = all.keys().nth(dice.roll(all.len())).cloned();
            all.remove(&key.expect("it is not empty"));
        }
        _ => {
            *value = match dice.roll(6) {
                0 => Value::Null,
                1 => Value::Bool(true),
                2 => number(dice),
                3 => text(dice),
                4 => Value::Array(vec![value.clone()]),
                _ => Value::Object(Default::default()),
            }
        }
    }
}

/// As the daemons print: the tag first.
fn print(value: &Value) -> Vec<u8> {
    let Value::Object(all) = value else {
        return value.to_string().into_bytes();
    };
    let mut out = String::from("{");
    let tag = all.iter().filter(|(k, _)| *k == "k");
    for (key, value) in tag.chain(all.iter().filter(|(k, _)| *k != "k")) {
        if out.len() > 1 {
            out.push(',');
        }
        out += &format!("{}:{value}", Value::from(key.as_str()));
    }
    out.push('}');
    out.into_bytes()
}

/// Changes frames and bytes: what stands in the records does not check any more.
pub fn bytes(dice: &mut Dice, bytes: &mut Vec<u8>) {
    for _ in 0..=dice.roll(2) {
        let at = dice.roll(bytes.len());
        match dice.roll(7) {
            0 => bytes.truncate(at),
            1 if !bytes.is_empty() => bytes[at] ^= 1 << dice.roll(8),
            2 => {
                let end = (at + 1 + dice.roll(40)).min(bytes.len());
                bytes.drain(at.min(end)..end);
            }
            3 => {
                let end = (at + 1 + dice.roll(400)).min(bytes.len());
                let piece = bytes[at.min(end)..end].to_vec();
                let to = dice.roll(bytes.len());
                bytes.splice(to..to, piece);
            }
            4 => trailer(dice, bytes),
            5 => bytes.splice(at..at, [b'\n']).for_each(drop),
            _ => {
                let from = bytes.len() - bytes.len().min(1 + dice.roll(4096));
                bytes[from..].fill(0);
            }
        }
    }
}

/// Puts another number into the trailer of a line.
fn trailer(dice: &mut Dice, bytes: &mut Vec<u8>) {
    let marks: Vec<usize> = (1..bytes.len())
        .filter(|i| &bytes[i - 1..=*i] == b" #")
        .collect();
    if marks.is_empty() {
        return;
    }
    let mut from = marks[dice.roll(marks.len())] + 1;
    let skip = dice.roll(3);
    let space = |b: &u8| *b == b' ' || *b == b'\n';
    for _ in 0..skip {
        from += bytes[from..].iter().position(space).map_or(0, |n| n + 1);
    }
    let len = bytes[from..].iter().position(space).unwrap_or(0);
    let text = NUMBERS[dice.roll(NUMBERS.len())];
    bytes.splice(from..from + len, text.bytes());
}

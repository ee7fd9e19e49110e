//! Section `charge`: prices of usage. Owns its keys and the text of its values; never computes a
//! cost.

use super::brackets::micro;
use super::keys;
use super::read::{Ctx, Defined, Fields};
use super::read_hosts::host_set;
use super::read_limits::names;
use super::read_users::user_set;
use super::read_watch::windows;
use super::types::Queue;
use crate::model::{Charge, Discount, MICRO, NameList, Price, WHOLE_DISCOUNT};
use crate::text::cron::Zone;
use crate::text::yaml::{Node, Value};

const MAX_PRICES: usize = 1_000;
const MAX_DISCOUNTS: usize = 100;
/// Maximum price of an hour.
const MAX_PRICE: u64 = 1_000_000;
/// Maximum length of the currency's name, in characters.
const MAX_CURRENCY: usize = 12;

pub(super) fn charge(
    ctx: &mut Ctx<'_>,
    node: &Node,
    queues: &[Queue],
    defined: &Defined<'_>,
) -> Option<Charge> {
    let f = Fields::new(ctx, node, keys::CHARGE, "charge")?;
    let mut out = Charge {
        currency: currency(ctx, &f),
        timezone: timezone(ctx, &f),
        ..Charge::default()
    };
    for item in items(ctx, &f, "prices", MAX_PRICES) {
        if let Some(f) = Fields::new(ctx, item, keys::PRICE, "a price") {
            let price = price(ctx, &f, queues, defined);
            warn_unreachable(ctx, &f, &out.prices);
            out.prices.push(price);
        }
    }
    for item in items(ctx, &f, "discounts", MAX_DISCOUNTS) {
        if let Some(f) = Fields::new(ctx, item, keys::DISCOUNT, "a discount") {
            out.discounts.extend(discount(ctx, &f, queues, defined));
        }
    }
    let none = f.node("prices").is_none_or(|node| match &node.value {
        Value::List(items) => items.is_empty(),
        other => *other == Value::Null,
    });
    if none && !ctx.partial {
        let message = "charge has no effect without prices";
        let hint = "write prices: with at least \"- slot_hour: NUMBER\"";
        ctx.problem_hint(f.pos, "missing-key", message, hint);
    }
    (!out.prices.is_empty()).then_some(out)
}

/// The entries of a list; `most`: the maximum number.
fn items<'n>(ctx: &mut Ctx<'_>, f: &Fields<'n>, key: &str, most: usize) -> &'n [Node] {
    let Some(node) = f.node(key) else {
        return &[];
    };
    let items = ctx.list(node, key);
    if items.len() > most {
        ctx.problem(f.key_pos(key), "range", format!("more than {most} {key}"));
    }
    &items[..items.len().min(most)]
}

fn currency(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> String {
    let Some(w) = f.scalar(ctx, "currency") else {
        return String::new();
    };
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !"\",;".contains(c);
    let length = w.text.chars().count();
    if !(1..=MAX_CURRENCY).contains(&length) || !w.text.chars().all(plain) {
        let message = format!("currency: {:?} is not a word", w.text);
        let hint = format!("write 1 to {MAX_CURRENCY} characters such as EUR or units");
        ctx.problem_hint(w.pos, "name", message, hint);
    }
    w.text
}

fn timezone(ctx: &mut Ctx<'_>, f: &Fields<'_>) -> String {
    let Some(w) = f.scalar(ctx, "timezone") else {
        return "UTC".to_owned();
    };
    if let Err(why) = Zone::named(&w.text) {
        ctx.problem(w.pos, "timezone", format!("timezone: {why}"));
    }
    w.text
}

fn price(ctx: &mut Ctx<'_>, f: &Fields<'_>, queues: &[Queue], defined: &Defined<'_>) -> Price {
    let hosts = f.read_words(ctx, "hosts");
    let hosts = hosts.and_then(|w| host_set(ctx, &w, defined.hosts, defined.host_groups));
    let hosts = hosts.map(|set| NameList {
        all_but: set.all_but,
        names: set.names,
    });
    let out = Price {
        queues: name_list(ctx, f, "queues", Some(queues)),
        hosts: hosts.unwrap_or_else(NameList::all),
        apps: name_list(ctx, f, "apps", None),
        slot_hour: amount(ctx, f, "slot_hour"),
        mem_gb_hour: amount(ctx, f, "mem_gb_hour"),
        gpu_hour: amount(ctx, f, "gpu_hour"),
    };
    if !["slot_hour", "mem_gb_hour", "gpu_hour"]
        .iter()
        .any(|key| f.has(key))
    {
        let message = "the price names no amount";
        let hint = "write slot_hour, mem_gb_hour or gpu_hour; 0 where it costs nothing";
        ctx.problem_hint(f.pos, "missing-key", message, hint);
    }
    out
}

/// Warns of a price that follows one for everything.
fn warn_unreachable(ctx: &mut Ctx<'_>, f: &Fields<'_>, before: &[Price]) {
    let all = |list: &NameList| *list == NameList::all();
    let whole = |p: &Price| all(&p.queues) && all(&p.hosts) && all(&p.apps);
    if before.iter().any(whole) {
        let message =
            "an earlier price is for all queues, hosts and applications: this one has no effect";
        let hint = "the first price that fits counts: move it up";
        ctx.warn(f.pos, "no-effect", message, Some(hint.into()));
    }
}

/// The names of a key, of these queues if given; an application may be a template of `apps.d`,
/// which is not read here.
fn name_list(ctx: &mut Ctx<'_>, f: &Fields<'_>, key: &str, queues: Option<&[Queue]>) -> NameList {
    let words = f.read_words(ctx, key);
    let set = words.and_then(|w| names(ctx, &w, queues));
    set.map_or_else(NameList::all, |set| NameList {
        all_but: set.all_but,
        names: set.names,
    })
}

/// An amount of money in millionths; absent is 0.
fn amount(ctx: &mut Ctx<'_>, f: &Fields<'_>, key: &str) -> u64 {
    decimal(ctx, f, key, MAX_PRICE).unwrap_or(0)
}

/// A decimal number of 0 to `most` in millionths.
fn decimal(ctx: &mut Ctx<'_>, f: &Fields<'_>, key: &str, most: u64) -> Option<u64> {
    let w = f.scalar(ctx, key)?;
    match micro(&w.text).map(i64::unsigned_abs) {
        Ok(n) if n <= most * MICRO => Some(n),
        Ok(_) => {
            let message = format!("{key} {} is outside 0 to {most}", w.text);
            ctx.problem(w.pos, "range", message);
            None
        }
        Err(e) => {
            ctx.parse_error(&w, "number", &e);
            None
        }
    }
}

fn discount(
    ctx: &mut Ctx<'_>,
    f: &Fields<'_>,
    queues: &[Queue],
    defined: &Defined<'_>,
) -> Option<Discount> {
    let users = f.read_words(ctx, "users");
    let users = users.and_then(|w| user_set(ctx, &w, defined.user_groups));
    let queues = name_list(ctx, f, "queues", Some(queues));
    // Only checked here; it is parsed again when it is used.
    let window = match windows(ctx, f, "window") {
        Some(_) => f.read_words(ctx, "window").map(|w| w.text),
        None => None,
    };
    if !f.has("percent") {
        let hint = "write percent: 0 to 100";
        ctx.problem_hint(f.pos, "missing-key", "the discount has no percent", hint);
        return None;
    }
    let percent = decimal(ctx, f, "percent", 100)?;
    let per_unit = 100 * MICRO / u64::from(WHOLE_DISCOUNT);
    if !percent.is_multiple_of(per_unit) {
        let pos = f.scalar(ctx, "percent")?.pos;
        let message = "percent has more than three decimal places";
        ctx.problem(pos, "number", message);
        return None;
    }
    Some(Discount {
        users: users.map_or("all".to_owned(), |set| set.to_string()),
        queues,
        window: window.unwrap_or_default(),
        percent: u32::try_from(percent / per_unit).unwrap_or(WHOLE_DISCOUNT),
    })
}

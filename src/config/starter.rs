//! A first cb.yaml for a new cluster. Text only; the caller writes it.

use std::fmt::Write;

/// The initial settings of a new cluster.
#[derive(Clone, Copy, Debug, Default)]
pub struct Starter<'a> {
    pub cluster: &'a str,
    pub administrator: &'a str,
    /// Host names; empty: any host may join.
    pub hosts: &'a [String],
    /// Slots of each host; `None` = as many as cores.
    pub slots: Option<u32>,
    /// Hosts that may lead; empty: the key is omitted.
    pub masters: &'a [String],
    /// Additional lines of section `cluster`, such as `lease_timeout: 3`, without indentation.
    pub settings: &'a [String],
}

/// The text of a minimal first cb.yaml: one administrator, any host, three queues, of which the
/// first is the default queue.
pub fn minimal(cluster: &str, administrator: &str) -> String {
    starter(&Starter {
        cluster,
        administrator,
        ..Starter::default()
    })
}

/// The text of a cb.yaml that `load` accepts if the names are valid.
pub fn starter(s: &Starter<'_>) -> String {
    let mut out = String::new();
    let mut line = |text: std::fmt::Arguments<'_>| {
        writeln!(out, "{text}").expect("writing to a String cannot fail");
    };
    line(format_args!(
        "# Configuration of the cluster; the manual page is cb.yaml(5)."
    ));
    line(format_args!(
        "# After a change: \"cadmin ckconfig\" checks it, \"cadmin reconfig\" applies it."
    ));
    line(format_args!("cluster:"));
    line(format_args!("  name: {}", quoted(s.cluster)));
    line(format_args!(
        "  administrators: [{}]",
        quoted(s.administrator)
    ));
    if !s.masters.is_empty() {
        line(format_args!("  masters: {}", quoted(&s.masters.join(" "))));
    }
    for setting in s.settings {
        line(format_args!("  {setting}"));
    }
    let slots = s.slots.map_or("'!'".to_string(), |n| n.to_string());
    line(format_args!("\nhosts:"));
    if s.hosts.is_empty() {
        line(format_args!(
            "# Any host that mounts the share and runs the daemons joins with one slot per core."
        ));
        line(format_args!(
            "- {{name: default, slots: {slots}, open: yes}}"
        ));
    } else {
        line(format_args!("- {{name: default, slots: {slots}}}"));
        line(format_args!(
            "- names: {}",
            quoted(&crate::text::hostlist::fold(s.hosts))
        ));
    }
    line(format_args!("\nqueues:"));
    line(format_args!("- name: normal"));
    line(format_args!("  description: for jobs submitted without -q"));
    line(format_args!("  priority: 40"));
    line(format_args!("- name: high"));
    line(format_args!("  description: urgent jobs, scheduled first"));
    line(format_args!("  priority: 60"));
    line(format_args!("- name: low"));
    line(format_args!("  description: low priority, scheduled last"));
    line(format_args!("  priority: 20"));
    out
}

/// Text as a YAML scalar that is read back as text.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

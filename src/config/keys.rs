//! The keys that cb.yaml may contain. Tables only: when a feature is built, its keys move from
//! `Later` to `Now` here and get a reader. Until then the key is refused, so that no site relies on
//! a setting without effect.

/// What happens to a key of this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyState {
    Now,
    /// Known, but not implemented in this version.
    Later,
}

/// A key, and the name it has in LSF's files (for hints only; empty = none).
pub(super) struct Key {
    pub name: &'static str,
    pub state: KeyState,
    pub lsf: &'static str,
}

const fn now(name: &'static str, lsf: &'static str) -> Key {
    Key {
        name,
        state: KeyState::Now,
        lsf,
    }
}

const fn later(name: &'static str, lsf: &'static str) -> Key {
    Key {
        name,
        state: KeyState::Later,
        lsf,
    }
}

pub(super) const SECTIONS: &[Key] = &[
    now("cluster", ""),
    now("general", "parameters"),
    now("hosts", "host"),
    now("hosttypes", "hosttype"),
    now("hostmodels", "hostmodel"),
    now("hostgroups", "hostgroup"),
    now("users", "user"),
    now("usergroups", "usergroup"),
    now("queues", "queue"),
    now("resources", "resource"),
    now("limits", "limit"),
    now("charge", ""),
    now("apps", "application"),
    later("virtual_clusters", ""),
    later("power", ""),
    later("scale", ""),
    now("alerts", ""),
    now("receivers", ""),
    now("mail", ""),
    now("portal", ""),
    later("hooks", ""),
];

pub(super) const CLUSTER: &[Key] = &[
    now("name", "clustername"),
    now("administrators", "clusteradmins"),
    now("masters", "lsf_master_list"),
    now("lease_timeout", ""),
    now("poll_interval", ""),
    now("hints", ""),
    now("hint_port", ""),
    now("allow_root_jobs", ""),
    now("cgroup", ""),
    now("unit_for_limits", "lsf_unit_for_limits"),
    later("cgroup_root", ""),
    later("log_level", "lsf_log_mask"),
    later("share_dir", "lsb_sharedir"),
    later("log_dir", "lsf_logdir"),
    later("lease_interval", ""),
    later("strict_uid_check", ""),
    later("additional_ports", ""),
    later("allow_docker_run_change_user", ""),
];

pub(super) const GENERAL: &[Key] = &[
    now("default_queue", "default_queue"),
    now("default_project", "default_project"),
    now("default_app", "default_application"),
    now("clean_period", "clean_period"),
    now("journal_keep", ""),
    now("history_keep", ""),
    now("history_size", ""),
    now("job_terminate_interval", "job_terminate_interval"),
    now("kill_wait", ""),
    now("sched_interval", "mbd_sleep_time"),
    now("iso_timeout", ""),
    now("key_keep", ""),
    now("max_array_size", "max_job_array_size"),
    now("max_jobid", "max_jobid"),
    now("max_pend_jobs", "max_pend_jobs"),
    now("sub_try_interval", "sub_try_interval"),
    now("exit_rate", "global_exit_rate"),
    now("exit_rate_duration", "job_exit_rate_duration"),
    now("max_user_priority", "max_user_priority"),
    now("pack_max", ""),
    now("orphans", ""),
    now("container_runtime", ""),
    now("user_view_alljobs", ""),
    now("job_accept_interval", "job_accept_interval"),
    now("default_host_spec", "default_host_spec"),
    now("job_check_interval", "sbd_sleep_time"),
    now("new_job_sched_delay", "new_job_sched_delay"),
    now("pg_susp_it", "pg_susp_it"),
    now("job_priority_over_time", "job_priority_over_time"),
    now("cpu_time_factor", "cpu_time_factor"),
    now("run_time_factor", "run_time_factor"),
    now("run_job_factor", "run_job_factor"),
    now("gpu_time_factor", ""),
    now("hist_hours", "hist_hours"),
    now("resource_reserve_per_task", "resource_reserve_per_task"),
    now("packing", ""),
    now("pre_exec_timeout", "job_preproc_timeout"),
    now("post_exec_timeout", "job_postproc_timeout"),
    now("checkpoint_timeout", ""),
    now("checkpoint_methods", ""),
    now("pre_exec_retries", "max_preexec_retry"),
    now("pre_exec_retry_action", "local_max_preexec_retry_action"),
    later("max_job_num", "max_job_num"),
    later("journal_segment", ""),
    later("max_host_fail", "max_sbd_fail"),
    later("job_dep_last_sub", "job_dep_last_sub"),
    later("orphan_term", "orphan_job_term_grace_period"),
    later("job_spool_dir", "job_spool_dir"),
    later("max_pend_slots", "max_pend_slots"),
    later(
        "default_limit_ignore_user_group",
        "default_limit_ignore_user_group",
    ),
    later("acct_archive_age", "acct_archive_age"),
    later("acct_archive_size", "acct_archive_size"),
    later("max_acct_archive_file", "max_acct_archive_file"),
    later(
        "shared_resource_update_factor",
        "shared_resource_update_factor",
    ),
    later("mail_program", ""),
    later("mailto", "lsb_mailto"),
    later("preempt_grace", ""),
    later("evict_delay", ""),
    later("retry_max", ""),
    later("fairshare_decay", ""),
    later("dominant", ""),
];

pub(super) const HOST: &[Key] = &[
    now("name", "host_name"),
    now("names", ""),
    now("open", ""),
    now("type", "type"),
    now("model", "model"),
    now("cpuf", ""),
    now("slots", "mxj"),
    now("user_slots", "jl/u"),
    now("tags", ""),
    now("resources", "resources"),
    now("server", "server"),
    now("dispatch_window", "dispatch_window"),
    now("thresholds", ""),
    now("rack", ""),
    now("unit", ""),
    later("migrate_after", "mig"),
    later("gpus", ""),
    later("reserved_cores", ""),
    later("reserved_mem", ""),
];

pub(super) const HOST_MODEL: &[Key] = &[
    now("name", "modelname"),
    now("cpuf", "cpufactor"),
    later("arch", "architecture"),
];

pub(super) const HOST_GROUP: &[Key] = &[
    now("name", "group_name"),
    now("members", "group_member"),
    later("condensed", "condense"),
];

pub(super) const USER_GROUP: &[Key] = &[
    now("name", "group_name"),
    now("members", "group_member"),
    now("administrator", "group_admin"),
    now("fairshare", "user_shares"),
    later("slots", ""),
    later("max_slots", "max_jobs"),
    later("max_pend_jobs", "max_pend_jobs"),
    later("max_pend_slots", "max_pend_slots"),
];

pub(super) const USER: &[Key] = &[
    now("name", "user_name"),
    now("max_slots", "max_jobs"),
    now("max_pend_jobs", "max_pend_jobs"),
    now("slots_per_cpu", "jl/p"),
    later("max_pend_slots", "max_pend_slots"),
    now("priority_cap", ""),
    later("can_preempt", ""),
    later("fairshare_weight", ""),
];

pub(super) const QUEUE: &[Key] = &[
    now("name", "queue_name"),
    now("description", "description"),
    now("priority", "priority"),
    now("nice", "nice"),
    now("administrators", "administrators"),
    now("users", "users"),
    now("hosts", "hosts"),
    now("slots", "qjob_limit"),
    now("user_slots", "ujob_limit"),
    now("host_slots", "hjob_limit"),
    now("proc_slots", "pjob_limit"),
    now("job_slots", "proclimit"),
    now("run_limit", "runlimit"),
    now("cpu_limit", "cpulimit"),
    now("mem_limit", "memlimit"),
    now("swap_limit", "swaplimit"),
    now("process_limit", "processlimit"),
    now("file_limit", "filelimit"),
    now("stack_limit", "stacklimit"),
    now("core_limit", "corelimit"),
    now("res_req", "res_req"),
    now("exclusive", "exclusive"),
    now("interactive", "interactive"),
    now("rerunnable", "rerunnable"),
    now("requeue_exit_values", "requeue_exit_values"),
    now("max_requeue", "max_job_requeue"),
    now("success_exit_values", "success_exit_values"),
    now("retries", ""),
    now("dispatch_window", "dispatch_window"),
    now("run_window", "run_window"),
    now("stop_cond", "stop_cond"),
    now("resume_cond", "resume_cond"),
    now("thresholds", ""),
    now("threshold_action", "terminate_when"),
    now("window_action", ""),
    now("job_accept_interval", "job_accept_interval"),
    now("new_job_sched_delay", "new_job_sched_delay"),
    now("ignore_deadline", "ignore_deadline"),
    now("slot_reserve", "slot_reserve"),
    now("backfill", "backfill"),
    now("round_robin", "round_robin_policy"),
    now("fairshare", "fairshare"),
    now("cpu_time_factor", "cpu_time_factor"),
    now("run_time_factor", "run_time_factor"),
    now("run_job_factor", "run_job_factor"),
    now("gpu_time_factor", ""),
    now("hist_hours", "hist_hours"),
    now("preemption", "preemption"),
    now("policy", ""),
    now("elastic", ""),
    now("packing", ""),
    now("gpu_env", ""),
    now("gpu_check", ""),
    now("strict", ""),
    now("backfill_order", ""),
    now("backfill_hosts", ""),
    now("pre_exec", "pre_exec"),
    now("post_exec", "post_exec"),
    now("pre_post_exec_user", "pre_post_exec_user"),
    now("warn_time", ""),
    now("warn_signal", ""),
    later("history_estimate", ""),
    later("thread_limit", "threadlimit"),
    later("data_limit", "datalimit"),
    now("job_starter", "job_starter"),
    now("job_controls", "job_controls"),
    now("chkpnt", "chkpnt"),
    later("migrate_after", "mig"),
    later("capacity", ""),
    now("cpu_bind", "affinity"),
    now("oom_kill", ""),
    later("gpu_mode", ""),
    later("virtual_cluster", ""),
    later("start_timeout", ""),
    later("forward_to", ""),
    later("max_rusage", ""),
];

pub(super) const PREEMPTION: &[Key] = &[
    now("preempt", "preemptive"),
    now("method", ""),
    now("order", "preempt_for"),
    now("grace", ""),
    now("warn_signal", ""),
    now("max_victims", ""),
    later("delay", "preempt_delay"),
    later("by_job", ""),
];

pub(super) const CONTROLS: &[Key] = &[
    now("suspend", "suspend"),
    now("resume", "resume"),
    now("terminate", "terminate"),
];

pub(super) const RESOURCE: &[Key] = &[
    now("name", "resourcename"),
    now("type", "type"),
    now("direction", "increasing"),
    now("release", "release"),
    now("slotresource", ""),
    now("description", "description"),
    now("assign", "assign"),
    now("per_unit", ""),
    now("devices", ""),
    now("locale", ""),
    now("value", ""),
    later("interval", "interval"),
];

pub(super) const LIMIT: &[Key] = &[
    now("name", "name"),
    now("queues", "queues"),
    now("per_queue", "per_queue"),
    now("users", "users"),
    now("per_user", "per_user"),
    now("hosts", "hosts"),
    now("per_host", "per_host"),
    now("projects", "projects"),
    now("per_project", "per_project"),
    now("apps", "apps"),
    now("per_app", "per_app"),
    now("slots", "slots"),
    now("jobs", "jobs"),
    now("resources", "resource"),
];

pub(super) const APP: &[Key] = &[
    now("name", "name"),
    now("description", "description"),
    now("users", ""),
    now("job_slots", "proclimit"),
    now("run_limit", "runlimit"),
    now("cpu_limit", "cpulimit"),
    now("mem_limit", "memlimit"),
    now("swap_limit", "swaplimit"),
    now("process_limit", "processlimit"),
    now("file_limit", "filelimit"),
    now("stack_limit", "stacklimit"),
    now("core_limit", "corelimit"),
    now("res_req", "res_req"),
    now("rerunnable", "rerunnable"),
    now("requeue_exit_values", "requeue_exit_values"),
    now("retries", ""),
    now("warn_time", ""),
    now("warn_signal", ""),
    now("pre_exec", "pre_exec"),
    now("post_exec", "post_exec"),
    now("job_starter", "job_starter"),
    now("chkpnt", "chkpnt_dir"),
    now("env", "env_vars"),
    now("success_exit_values", "success_exit_values"),
    now("max_requeue", "max_job_requeue"),
    now("job_controls", "suspend_control"),
    now("preemptable", "no_preempt_run_time"),
];

/// Keys of a template in `apps.d`, not of cb.yaml.
pub(super) const TEMPLATE: &[Key] = &[
    now("name", ""),
    now("label", ""),
    now("label_zh", ""),
    now("description", ""),
    now("description_zh", ""),
    now("help", ""),
    now("help_zh", ""),
    now("profile", ""),
    now("params", ""),
    now("options", ""),
    now("env", ""),
    now("command", ""),
    now("script", ""),
    now("include", ""),
    now("args", ""),
    later("users", ""),
];

pub(super) const PARAM: &[Key] = &[
    now("name", ""),
    now("label", ""),
    now("label_zh", ""),
    now("help", ""),
    now("help_zh", ""),
    now("type", ""),
    now("default", ""),
    now("required", ""),
    now("choices", ""),
    now("min", ""),
    now("max", ""),
    now("pattern", ""),
    now("exists", ""),
];

pub(super) const CHOICE: &[Key] = &[now("value", ""), now("label", ""), now("label_zh", "")];

pub(super) const CHARGE: &[Key] = &[
    now("currency", ""),
    now("timezone", ""),
    now("prices", ""),
    now("discounts", ""),
];

pub(super) const ALERT: &[Key] = &[
    now("name", ""),
    now("watch", ""),
    now("metric", ""),
    now("match", ""),
    now("hosts", "host"),
    now("queues", "queue"),
    now("resource", ""),
    now("over", ""),
    now("under", ""),
    now("for", ""),
    now("severity", ""),
    now("labels", ""),
    now("to", ""),
];

pub(super) const RECEIVER: &[Key] = &[
    now("name", ""),
    now("mail", ""),
    now("webhook", ""),
    now("webhook_file", ""),
    now("program", ""),
    now("timeout", ""),
    now("job_notices", ""),
];

pub(super) const MAIL: &[Key] = &[
    now("smtp", ""),
    now("tls", ""),
    now("from", ""),
    now("domain", ""),
    now("user", ""),
    now("password_file", ""),
    now("hourly", ""),
    now("timeout", ""),
];

pub(super) const PORTAL: &[Key] = &[
    now("listen", ""),
    now("names", ""),
    now("user", ""),
    now("tls_cert", ""),
    now("tls_key", ""),
    now("metrics_open", ""),
    now("apps_domain", ""),
    now("trust_proxy", ""),
    now("pam", ""),
    now("pam_service", ""),
    now("session_idle", ""),
    now("session_max", ""),
];

pub(super) const PRICE: &[Key] = &[
    now("queues", "queue"),
    now("hosts", "host"),
    now("apps", "app"),
    now("slot_hour", "cpuperhour"),
    now("mem_gb_hour", ""),
    now("gpu_hour", "gpuperhour"),
];

pub(super) const DISCOUNT: &[Key] = &[
    now("users", "user"),
    now("queues", "queue"),
    now("window", ""),
    now("percent", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_table_names_a_key_twice() {
        let tables = [
            SECTIONS, CLUSTER, GENERAL, HOST, HOST_MODEL, HOST_GROUP, USER_GROUP, USER, QUEUE,
            PREEMPTION, CONTROLS, RESOURCE, LIMIT, APP, TEMPLATE, PARAM, CHOICE, CHARGE, PRICE,
            DISCOUNT, ALERT, RECEIVER, MAIL, PORTAL,
        ];
        for table in tables {
            for (i, k) in table.iter().enumerate() {
                assert!(
                    table[..i].iter().all(|o| o.name != k.name),
                    "{} twice",
                    k.name
                );
            }
        }
    }
}

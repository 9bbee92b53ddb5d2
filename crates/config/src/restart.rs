//! The settings that a running server cannot change.

use super::{Config, LogConfig, RecordConfig, ServerConfig};

impl Config {
    /// The sections that differ from those of `started`, and that only a restart applies. Each
    /// section is named here, so that a new one has to be decided on.
    pub fn restarts(&self, started: &Self) -> Vec<&'static str> {
        let Self {
            server,
            store,
            record,
            limits,
            telemetry,
            log,
            openwop,
            otc,
            oxp,
            explorer,
            mcp,
            resource,
            // These apply at once.
            gate: _,
            metrics: _,
            approvals: _,
            policies: _,
            sources: _,
            roles: _,
            anonymous: _,
            otc_jwt: _,
            issuers: _,
            bridge: _,
            people: _,
            toolsets: _,
            // These are no settings of the file.
            protection: _,
            test_routes: _,
        } = self;
        let sections = [
            ("server", is_other_server(&started.server, server)),
            ("store", started.store != *store),
            ("limits", started.limits != *limits),
            ("telemetry", started.telemetry != *telemetry),
            ("log] access of [log", is_other_log(&started.log, log)),
            (
                "record] durability, signing_key and hash_key of [record",
                is_other_record(&started.record, record),
            ),
            ("auth.resource", started.resource != *resource),
            // Whether the page can edit is read for each request.
            ("explorer", {
                let mut explorer = explorer.clone();
                explorer.edit = started.explorer.edit;
                started.explorer != explorer
            }),
            ("openwop", started.openwop != *openwop),
            ("otc", started.otc != *otc),
            ("oxp", started.oxp != *oxp),
            ("mcp", started.mcp != *mcp),
        ];
        sections.into_iter().filter(|(_, changed)| *changed).map(|(name, _)| name).collect()
    }
}

fn is_other_server(started: &ServerConfig, new: &ServerConfig) -> bool {
    let ServerConfig {
        listen,
        behind_proxy,
        tls: _,
        // It is read when an address is made.
        public_url: _,
        allowed_hosts,
        allowed_origins,
        max_body_bytes,
        max_body_total_bytes,
        public_metrics,
        // It is read when the server stops.
        drain: _,
    } = new;
    // The files of the certificate can change at any time, but not whether there are any.
    let hsts = |config: &ServerConfig| config.tls.as_ref().map(|tls| tls.hsts);
    started.listen != *listen
        || started.behind_proxy != *behind_proxy
        || hsts(started) != hsts(new)
        || started.allowed_hosts != *allowed_hosts
        || started.allowed_origins != *allowed_origins
        || started.max_body_bytes != *max_body_bytes
        || started.max_body_total_bytes != *max_body_total_bytes
        || started.public_metrics != *public_metrics
}

fn is_other_log(started: &LogConfig, new: &LogConfig) -> bool {
    let LogConfig { format: _, access } = new;
    started.access != *access
}

fn is_other_record(started: &RecordConfig, new: &RecordConfig) -> bool {
    let RecordConfig {
        durability,
        signing_key,
        hash_key,
        checkpoint_every: _,
        checkpoint_interval: _,
        keep: _,
        max_session_age: _,
        anchors: _,
        forwards: _,
    } = new;
    started.durability != *durability
        || started.signing_key != *signing_key
        || started.hash_key != *hash_key
}

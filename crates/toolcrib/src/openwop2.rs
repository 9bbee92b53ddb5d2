//! OpenWOP v2: the catalog of RFC 0204, runs and their events, at paths without a version.
//!
//! The header `OpenWOP-Version` selects it where Open Tool Calling has the same path. With
//! `openwop.v2 = "root"`, all requests for these paths belong to it. Every response has the version
//! that it follows, refusals included.

mod annotations;
mod compact;
mod discovery;
mod error;
mod events;
mod ids;
mod request;
mod runs;
mod schemas;
mod stream;
mod tools;

use axum::{
    extract::Request,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, Method, header};
use toolcrib_config::{Config, MountAuth, OpenWopV2};
use toolcrib_gateway::metrics::Surface;
use utoipa_axum::{router::OpenApiRouter, routes};

use self::error::{Failure, refuse};
use crate::{
    middleware::{Access, Mount, Paths},
    protocol_version::{self, NamedVersion, OPENWOP_VERSION, V1, V2},
    route_set::{RouteSet, Setup},
    state::AppState,
};

const SURFACE: Surface = Surface::new("openwop2", "OpenWop2");

const DISCOVERY: &str = "/.well-known/openwop";
const DESCRIPTION: &str = "/openapi.json";

pub(crate) const DIALECT: RouteSet = RouteSet {
    tags: &[("OpenWOP v2", "The tool catalog of RFC 0204, runs and their events")],
    surfaces: &[],
    error: "ErrorEnvelopeV2",
    mounts,
    separate: true,
    routes,
    description: schemas::components,
};

/// The mount of requests for paths of no dialect. A request that names a version gets a response in
/// this version.
pub(crate) fn elsewhere(config: &Config) -> Mount {
    let mount = Mount::new(SURFACE, Paths::All, Access::Open, refuse);
    match config.openwop.v2 {
        OpenWopV2::Header | OpenWopV2::Root => {
            Mount { claims: protocol_version::is_named, negotiate, headers: versioned, ..mount }
        }
        OpenWopV2::Off => switched_off(mount),
    }
}

/// All paths require a key, whether they exist or not, except for discovery and the description of
/// the interface.
fn mounts(config: &Config) -> Vec<Mount> {
    let open = |path| Mount::new(SURFACE, Paths::exactly([path]), Access::Open, refuse);
    let keyed = |path: &str| {
        let access = Access::Keyed(MountAuth::Required);
        Mount::new(SURFACE, Paths::Under(path.to_owned()), access, refuse)
    };
    let discovery = Mount { claims: selects_second, ..open(DISCOVERY) };
    let description = open(DESCRIPTION);
    let (mut tools, runs) = (keyed("/tools"), keyed("/runs"));
    let (negotiate, headers): (VersionCheck, fn(&mut HeaderMap)) = match config.openwop.v2 {
        OpenWopV2::Header => {
            tools.claims = claims_tools;
            (negotiate, versioned)
        }
        OpenWopV2::Root => (negotiate, versioned),
        OpenWopV2::Off => {
            let mut off = [discovery, description, runs, tools].map(switched_off);
            let [.., tools] = &mut off;
            tools.claims = |request| is_foreign(request) && !is_call(request);
            return off.into();
        }
    };
    let shared = |headers: &mut HeaderMap| {
        versioned(headers);
        protocol_version::shared_path(headers);
    };
    vec![
        Mount { negotiate, headers, ..discovery },
        Mount { negotiate, headers, ..description },
        Mount { negotiate, headers: shared, ..tools },
        Mount { negotiate, headers, ..runs },
    ]
}

/// Makes `mount` refuse the versions that are not served, and leave other requests to other mounts.
fn switched_off(mount: Mount) -> Mount {
    Mount { claims: is_foreign, negotiate: unsupported, headers: varied, ..mount }
}

type VersionCheck = fn(&HeaderMap) -> Option<Response>;

/// Whether a request for discovery is for the second version. A request without a version is for
/// the first one, which is preferred.
fn selects_second(request: &Request) -> bool {
    match NamedVersion::of(request.headers()) {
        NamedVersion::None | NamedVersion::Major(1) => false,
        NamedVersion::Major(_) | NamedVersion::Malformed => true,
    }
}

/// Whether a request below `/tools` is for this version. Open Tool Calling has the list without a
/// version, and calls with and without one; it has no route for a single tool.
fn claims_tools(request: &Request) -> bool {
    match request.uri().path() {
        "/tools" => protocol_version::is_named(request),
        "/tools/call" => !is_call(request) && protocol_version::is_named(request),
        _ => true,
    }
}

/// Whether a request is a call of Open Tool Calling, whatever version it names.
fn is_call(request: &Request) -> bool {
    *request.method() == Method::POST && request.uri().path() == "/tools/call"
}

/// Whether a request names an unsupported version.
fn is_foreign(request: &Request) -> bool {
    match NamedVersion::of(request.headers()) {
        NamedVersion::Major(major) => major != 1,
        NamedVersion::None | NamedVersion::Malformed => false,
    }
}

/// Refuses versions that these paths do not have. Without a version, they are v2 (headers.md).
fn negotiate(headers: &HeaderMap) -> Option<Response> {
    match NamedVersion::of(headers) {
        NamedVersion::None | NamedVersion::Major(2) => None,
        // The first version is listed, but has other paths.
        NamedVersion::Major(1) => {
            let mut response = Failure::no_route().into_response();
            response.headers_mut().insert(OPENWOP_VERSION, V1);
            Some(response)
        }
        NamedVersion::Major(_) => Some(Failure::unsupported_version(OpenWopV2::Header)),
        NamedVersion::Malformed => {
            let message = "`OpenWOP-Version` must be sent once, with a version such as 2.0";
            Some(Failure::invalid(message, None).into_response())
        }
    }
}

/// Refuses every version; only requests for a foreign one come here.
fn unsupported(_: &HeaderMap) -> Option<Response> {
    Some(Failure::unsupported_version(OpenWopV2::Off))
}

/// Adds the version, and `Vary`, because responses depend on it.
fn versioned(headers: &mut HeaderMap) {
    headers.entry(OPENWOP_VERSION).or_insert(V2);
    varied(headers);
}

fn varied(headers: &mut HeaderMap) {
    let vary = HeaderValue::from_static(protocol_version::VARY);
    headers.entry(header::VARY).or_insert(vary);
}

fn routes(setup: &Setup<'_>) -> OpenApiRouter<AppState> {
    let document = discovery::document(setup.config);
    OpenApiRouter::new()
        .routes(routes!(discovery::discover))
        .layer(axum::Extension(document))
        .routes(routes!(schemas::description))
        .routes(routes!(tools::list))
        .routes(routes!(tools::by_id))
        .routes(routes!(runs::list))
        .routes(routes!(runs::by_id))
        .routes(routes!(runs::cancel))
        .routes(routes!(stream::events))
}

//! A program that offers its own functions as tools: by a bare explorer, and behind a whole gateway.
//! `cargo run -p toolcrib-server --example embed`, then open the addresses that it prints.

use std::{error::Error, io::Write as _, sync::Arc};

use axum::{Router, routing::get};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib::{
    Annotations, ExplorerConfig, Gateway, Identity, NativeTools, NoArguments, RouterExt as _,
    TypedTool, TypedTools,
    core::{
        descriptor::SafetyTier,
        id::{PrincipalId, TenantId},
        scope::Grant,
        store::Storage,
    },
    gateway::authn::{KeyRequest, new_key},
};
use toolcrib_store::MemoryStorage;

// --- the tools: async functions with types of their own ---

/// Returns the weather of a city
#[derive(Deserialize, JsonSchema)]
struct WeatherOf {
    /// City name
    city: String,
}

#[derive(Serialize, JsonSchema)]
struct Weather {
    sky: &'static str,
    celsius: f64,
}

async fn get_weather(place: WeatherOf) -> Result<Weather, String> {
    match place.city.as_str() {
        "Ulm" => Ok(Weather { sky: "sunny", celsius: 21.5 }),
        other => Err(format!("there is no station in {other}")),
    }
}

async fn open_gate(_: NoArguments, caller: Option<Identity>) -> Result<String, &'static str> {
    let caller = caller.ok_or("only known callers open the gate")?;
    Ok(format!("The gate is open, {}.", caller.id))
}

fn tools() -> TypedTools {
    let reads = Annotations { read_only_hint: Some(true), ..Annotations::default() };
    TypedTools::new([
        TypedTool::new("get_weather", get_weather).annotations(reads),
        TypedTool::with_identity("open_gate", open_gate).description("Opens the gate of the yard"),
    ])
}

// --- a bare explorer: the page and its endpoints, nothing else ---

fn explorer() -> Router {
    let config = ExplorerConfig::new()
        .title("Yard tools")
        .project_name("the yard")
        .project_url("https://example.com/yard")
        .allow_execute(true)
        .authenticator(|headers: http::HeaderMap| async move {
            let secret = headers.get("authorization")? == "Bearer open-sesame";
            secret.then(|| Identity { id: "keeper".to_owned(), ..Identity::default() })
        })
        .handler(tools());
    toolcrib::explorer("/explorer-only", tools(), config)
}

// --- a whole gateway: every protocol, one gate, one record ---

async fn gateway(storage: Arc<dyn Storage>) -> Result<Gateway, Box<dyn Error>> {
    let tools = NativeTools::typed("yard", tools())?
        .scopes(["yard:use"])?
        .tier(SafetyTier::Read)
        .tenants(["acme"])?;
    Ok(Gateway::builder(storage).tools(tools).start().await?)
}

/// Everything, and a key that may use it.
pub(crate) async fn program() -> Result<(Router, Gateway, String), Box<dyn Error>> {
    // To keep everything: `toolcrib_store::open("sqlite:yard.db", Options::default())?`.
    let storage = Arc::new(MemoryStorage::default());
    let gateway = gateway(Arc::clone(&storage) as Arc<dyn Storage>).await?;

    let request = KeyRequest {
        name: "first".to_owned(),
        tenant: TenantId::parse("acme")?,
        principal: PrincipalId::parse("keeper")?,
        roles: Vec::new(),
        scopes: vec![Grant::parse("yard:*")?],
        expires_at: None,
    };
    let key = new_key(request, gateway.clock().now())?;
    storage.keys().insert(key.record).await?;
    gateway.authenticator().refresh().await;

    let router = Router::new()
        .route("/", get(|| async { "the yard's own page" }))
        .merge(explorer())
        .merge(gateway.router());
    Ok((router, gateway, key.text.expose().to_owned()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (router, gateway, key) = program().await?;
    let listener = toolcrib::bind("127.0.0.1:8809".parse()?)?;
    let at = format!("http://{}", listener.local_addr()?);
    let mut out = std::io::stdout();
    writeln!(out, "a bare explorer (calls need the key `open-sesame`): {at}/explorer-only")?;
    writeln!(out, "the gateway's explorer: {at}/explorer")?;
    writeln!(out, "curl -H 'Authorization: Bearer {key}' {at}/v1/tools")?;
    let interrupted = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    toolcrib::serve(listener, router, interrupted).await?;
    gateway.close().await;
    Ok(())
}

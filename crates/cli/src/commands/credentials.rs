//! `credentials set|list|rotate|remove|new-key|reseal`: in the store, which running servers poll.
//!
//! Invariant: a value is read from stdin, a file or a variable, and is never printed.

use std::io::{IsTerminal as _, Read as _, Write as _};

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use toolcrib_core::{
    credential::{
        ClientAuth, Credential, CredentialKind, CredentialStore, CredentialStoreError, Material,
        OAuth2, Owner, Secret,
    },
    egress::is_loopback,
    id::TenantId,
    store::{Storage, StoreError},
};
use toolcrib_gateway::authn::manage::moment;
use toolcrib_store::{Options, SealKey};

use crate::{
    args::{
        ClientAuthArg, CredentialOwnerArgs, CredentialRotateArgs, CredentialSetArgs,
        CredentialValueArgs, CredentialsCommand,
    },
    context::Context,
    env,
    failure::{Advice as _, Exit, advised, advised_by, usage},
    printer::Printer,
    seal,
    settings::{self, Settings},
    store,
    table::{Column, Kind},
};

/// Size limit of a value, in bytes.
const MAX_VALUE: u64 = 64 << 10;

const COLUMNS: &[Column<Credential>] = &[
    Column(Kind::Name, "name", |credential| credential.name.to_string()),
    Column(Kind::State, "state", |credential| state(credential, Utc::now())),
    Column(Kind::Text, "owner", |credential| match &credential.owner.principal {
        Some(principal) => format!("{principal} in {}", credential.owner.tenant),
        None => credential.owner.tenant.to_string(),
    }),
    Column(Kind::Wide, "kind", |credential| credential.kind.word().to_owned()),
    Column(Kind::Text, "audiences", |credential| {
        credential.audiences.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }),
    Column(Kind::Time, "set", |credential| moment(credential.rotated_at)),
    Column(Kind::Id, "id", |credential| credential.id.to_string()),
];

pub(crate) async fn run(command: CredentialsCommand, cx: &Context) -> anyhow::Result<Exit> {
    let printer = cx.printer;
    if let CredentialsCommand::NewKey { out } = &command {
        return new_key(out.as_deref(), printer).map(|()| Exit::Done);
    }
    settings::no_url(&cx.global, "credentials are managed")?;
    let settings = Settings::load(&cx.global)?;
    let config = &settings.config;
    // The value of `set`, read before its store is created.
    let mut value = None;
    let with = |seal_keys| Options { seal_keys, ..Options::default() };
    let store = match &command {
        CredentialsCommand::Set(args) => {
            check_owner(&args.owner)?;
            let keys = seal::keys(&config.store).await?;
            // Precedes reading the value and creating the store.
            if !keys.can_seal() {
                return Err(no_key());
            }
            store::refuse_second(&settings).await?;
            let kind = kind(args)?;
            let material = material(&args.value, &kind, None)?;
            value = Some((kind, material));
            store::open_or_create(&settings, with(keys), printer).await?
        }
        // `list` and `remove` need no key.
        CredentialsCommand::List(_) | CredentialsCommand::Remove { .. } => {
            store::open_existing(config).await?
        }
        _ => store::open_existing_with(config, with(seal::keys(&config.store).await?)).await?,
    };
    let credentials = &*store.credentials();
    let result = match command {
        CredentialsCommand::Set(args) => set(*args, value, credentials, printer).await,
        CredentialsCommand::List(_) => list(credentials, printer).await,
        CredentialsCommand::Rotate(args) => rotate(args, credentials, printer).await,
        CredentialsCommand::Remove { owner } => remove(owner, credentials, printer).await,
        CredentialsCommand::Reseal => reseal(&*store, printer).await,
        CredentialsCommand::NewKey { .. } => Ok(()),
    };
    store.close().await;
    result.map(|()| Exit::Done)
}

async fn set(
    args: CredentialSetArgs,
    value: Option<(CredentialKind, Material)>,
    credentials: &dyn CredentialStore,
    printer: Printer,
) -> anyhow::Result<()> {
    let (kind, material) = value.context("the value was not read")?;
    let owner = owner(&args.owner);
    let now = Utc::now();
    let credential = Credential {
        id: toolcrib_store::new_credential_id()?,
        name: args.owner.name,
        owner,
        kind,
        audiences: args.audiences,
        created_at: now,
        rotated_at: now,
        expires_at: args.value.expires.map(|lifetime| now + lifetime),
        revision: 1,
    };
    let stored = credentials.put(credential.clone(), material).await;
    stored.map_err(|error| match error {
        CredentialStoreError::Store(StoreError::Conflict(_)) => advised(
            format!("the credential `{}` of this owner already exists", credential.name),
            "`toolcrib credentials rotate` changes its value; to change anything else, remove it \
             first",
        ),
        error => advised_by(error, "the credential was not stored", HINT),
    })?;
    let Credential { id, name, owner, .. } = &credential;
    let note = format!(
        "stored {id} as `{name}` of {}; running servers use it at once",
        describe_owner(owner)
    );
    printer.json_or_note(&public(&credential, now), note)
}

async fn list(credentials: &dyn CredentialStore, printer: Printer) -> anyhow::Result<()> {
    let (now, all) = (Utc::now(), credentials.list().await?);
    if printer.wants_json() {
        return printer
            .json(&all.iter().map(|credential| public(credential, now)).collect::<Vec<_>>());
    }
    if all.is_empty() {
        printer.note("there are no credentials; `toolcrib credentials set` stores one");
        return Ok(());
    }
    printer.table(COLUMNS, &all)
}

async fn rotate(
    args: CredentialRotateArgs,
    credentials: &dyn CredentialStore,
    printer: Printer,
) -> anyhow::Result<()> {
    let owner = owner(&args.owner);
    let opened = credentials.get(&owner, &args.owner.name).await;
    let opened = opened.advise("the credential cannot be read", HINT)?;
    let opened = opened.ok_or_else(|| unknown(&args.owner))?;
    let mut credential = opened.credential;
    let before = opened.material.client_secret;
    let material = material(&args.value, &credential.kind, before)?;
    let now = Utc::now();
    let expires = args.value.expires.map(|lifetime| now + lifetime);
    let seen = credential.revision;
    let rotated = credentials.rotate(&credential.id, seen, material, expires, now).await;
    if !rotated.advise("the credential was not rotated", HINT)? {
        return Err(advised(
            "the credential was changed meanwhile",
            "`toolcrib credentials list` shows it; try again",
        ));
    }
    credential.revision += 1;
    credential.rotated_at = now;
    credential.expires_at = expires;
    let note = "rotated; running servers use the new value at once";
    printer.json_or_note(&public(&credential, now), note)
}

async fn remove(
    args: CredentialOwnerArgs,
    credentials: &dyn CredentialStore,
    printer: Printer,
) -> anyhow::Result<()> {
    let owner = owner(&args);
    let all = credentials.list().await?;
    let found = all
        .into_iter()
        .find(|credential| credential.owner == owner && credential.name == args.name);
    let found = found.ok_or_else(|| unknown(&args))?;
    if !credentials.remove(&found.id).await? {
        return Err(unknown(&args));
    }
    let removed = json!({ "id": found.id, "name": found.name });
    printer.json_or_note(&removed, "removed; calls that need it fail from now on")
}

async fn reseal(store: &dyn Storage, printer: Printer) -> anyhow::Result<()> {
    let resealed = store.reseal().await.advise(
        "some data could not be resealed",
        "set `[store] old_seal_key` to the key of the remaining data, or remove the credential and \
         set it again",
    )?;
    let note = format!("resealed {resealed} items; everything is sealed with `[store] seal_key`");
    printer.json_or_note(&json!({ "resealed": resealed }), note)
}

fn new_key(out: Option<&std::path::Path>, printer: Printer) -> anyhow::Result<()> {
    let key = SealKey::generate()?;
    let Some(path) = out else {
        return printer.json_or_line(&json!({ "key": key.expose() }), key.expose());
    };
    use std::os::unix::fs::OpenOptionsExt as _;
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = made.advise(
        format!("the file {} cannot be created", path.display()),
        "name a new file; a key is never overwritten, because a store may depend on it",
    )?;
    writeln!(file, "{}", key.expose())?;
    file.sync_all()?;
    let note = format!(
        "name it in the configuration, and keep a copy apart from the store's backups:\n\
         [store]\nseal_key = {{ file = {:?} }}",
        path.display().to_string()
    );
    printer.json_or_note(&json!({ "file": path }), note)
}

const HINT: &str = "see `toolcrib credentials --help` for the requirements";

fn no_key() -> anyhow::Error {
    advised(
        "no credential can be stored without a seal key",
        "create one with `toolcrib credentials new-key --out FILE`, and set `[store] seal_key`",
    )
}

fn unknown(args: &CredentialOwnerArgs) -> anyhow::Error {
    let owner = describe_owner(&owner(args));
    advised(
        format!("there is no credential `{}` of {owner}", args.name),
        "`toolcrib credentials list` shows them; select the owner with --tenant and --principal",
    )
}

fn check_owner(args: &CredentialOwnerArgs) -> anyhow::Result<()> {
    match args.tenant.as_str() == TenantId::OPERATOR {
        true => Err(usage("the tenant `-` is the record's own; choose another name")),
        false => Ok(()),
    }
}

fn owner(args: &CredentialOwnerArgs) -> Owner {
    Owner { tenant: args.tenant.clone(), principal: args.principal.clone() }
}

fn describe_owner(owner: &Owner) -> String {
    match &owner.principal {
        Some(principal) => format!("principal {principal} in tenant {}", owner.tenant),
        None => format!("tenant {}", owner.tenant),
    }
}

fn kind(args: &CredentialSetArgs) -> anyhow::Result<CredentialKind> {
    let oauth2 = |url: &str| OAuth2 {
        token_url: url.to_owned(),
        client_id: args.client_id.clone().unwrap_or_default(),
        client_auth: match args.client_auth {
            ClientAuthArg::Basic => ClientAuth::Basic,
            ClientAuthArg::Post => ClientAuth::Post,
        },
        scopes: args.scopes.clone(),
        resource: None,
    };
    let kind = if let Some(name) = &args.header {
        let prefix = args.prefix.clone().unwrap_or_default();
        CredentialKind::Header { name: name.to_ascii_lowercase(), prefix }
    } else if let Some(parameter) = &args.query {
        CredentialKind::Query { parameter: parameter.clone() }
    } else if let Some(username) = &args.basic {
        CredentialKind::Basic { username: username.clone() }
    } else if let Some(url) = &args.oauth2_client {
        CredentialKind::ClientCredentials(oauth2(url))
    } else if let Some(url) = &args.oauth2_refresh {
        CredentialKind::RefreshToken(oauth2(url))
    } else {
        let prefix = "Bearer ".to_owned();
        CredentialKind::Header { name: "authorization".to_owned(), prefix }
    };
    kind.check().map_err(|error| usage(error.to_string()))?;
    if let Some(oauth2) = kind.oauth2() {
        check_endpoint(&oauth2.token_url)?;
    }
    Ok(kind)
}

/// Requires an https URL, or a loopback one: the client secret is sent to it.
fn check_endpoint(text: &str) -> anyhow::Result<()> {
    let url = url::Url::parse(text).map_err(|_| usage("the token endpoint is not a URL"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(usage("the token endpoint's URL carries a secret; leave it out"));
    }
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_loopback(&url) => Ok(()),
        _ => Err(usage("the token endpoint must be an https URL, or one of this machine")),
    }
}

fn material(
    args: &CredentialValueArgs,
    kind: &CredentialKind,
    before: Option<Secret>,
) -> anyhow::Result<Material> {
    let refreshes = matches!(kind, CredentialKind::RefreshToken(_));
    let given = args.client_secret_file.is_some() || args.client_secret_env.is_some();
    if given && !refreshes {
        return Err(usage(
            "a separate client secret requires --oauth2-refresh; with --oauth2-client the value is \
             the client secret",
        ));
    }
    let client_secret = match (&args.client_secret_file, &args.client_secret_env) {
        (Some(path), _) => Some(env::read_secret(path).map_err(usage)?),
        (None, Some(name)) => Some(variable(name)?),
        (None, None) => before,
    };
    let value = match (&args.value_file, &args.value_env) {
        (Some(path), _) => env::read_secret(path).map_err(usage)?,
        (None, Some(name)) => variable(name)?,
        (None, None) => typed()?,
    };
    let sendable = |b: u8| b == b'\t' || (b >= b' ' && b != 0x7f);
    if !value.expose().bytes().all(sendable) {
        return Err(usage("the value has a line break or another control character in it"));
    }
    Ok(Material { value, client_secret })
}

fn variable(name: &str) -> anyhow::Result<Secret> {
    let value = env::variable(name).map(Secret::new);
    value.ok_or_else(|| usage(format!("environment variable {name} is not set")))
}

/// Reads the value from stdin, without trailing line breaks.
fn typed() -> anyhow::Result<Secret> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Err(usage(
            "the value is read from stdin: pipe it in, or use --value-file or --value-env",
        ));
    }
    let mut text = String::new();
    let read = stdin.lock().take(MAX_VALUE + 1).read_to_string(&mut text);
    let read = read.context("the value on stdin is not text")?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(usage("there is no value on stdin; pipe it in, or use --value-file")),
        _ if read as u64 > MAX_VALUE => Err(usage("the value is larger than 64 KiB")),
        value => Ok(Secret::new(value.to_owned())),
    }
}

fn public(credential: &Credential, now: DateTime<Utc>) -> Value {
    json!({
        "id": credential.id,
        "name": credential.name,
        "tenant": credential.owner.tenant,
        "principal": credential.owner.principal,
        "kind": credential.kind,
        "audiences": credential.audiences,
        "createdAt": moment(credential.created_at),
        "rotatedAt": moment(credential.rotated_at),
        "expiresAt": credential.expires_at.map(moment),
        "revision": credential.revision,
        "state": if credential.has_expired(now) { "expired" } else { "active" },
    })
}

fn state(credential: &Credential, now: DateTime<Utc>) -> String {
    match credential.expires_at {
        Some(end) if end <= now => format!("expired {}", moment(end)),
        Some(end) => format!("expires {}", moment(end)),
        None => "active".to_owned(),
    }
}

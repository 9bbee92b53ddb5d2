-- Texts compare by their bytes (COLLATE "C"), as in Rust, whatever the locale of the database.

-- An epoch rises by one with every change, in the same transaction. `session_notices` is the last number
-- of one. Client sessions opened up to `sessions_ended` (milliseconds since the Unix epoch) have ended.
-- The row `recovery` is locked by the one process that recovers.
CREATE TABLE meta (
  name  TEXT PRIMARY KEY,
  value BIGINT NOT NULL
);
INSERT INTO meta (name, value)
  VALUES ('keys_epoch', 0), ('pins_epoch', 0), ('catalogs_epoch', 0), ('cancellations', 0),
         ('session_notices', 0), ('sessions_ended', 0), ('recovery', 0);

-- The last position of the whole log. Taken last in a transaction, so that events become visible in
-- the order of their positions.
CREATE TABLE log_position (
  id    INTEGER PRIMARY KEY CHECK (id = 1),
  value BIGINT NOT NULL
);
INSERT INTO log_position (id, value) VALUES (1, 0);

-- The end of the log of each tenant. A transaction that appends to it locks its row.
CREATE TABLE tenants (
  tenant   TEXT COLLATE "C" PRIMARY KEY,
  position BIGINT NOT NULL,
  hash     BYTEA NOT NULL
);

-- One partition per month in which events were stored (`partitions.rs`), so that retention can drop a
-- whole one. Uniqueness across months follows from the lock of the tenant and of the position.
CREATE TABLE events (
  month           DATE NOT NULL,
  position        BIGINT NOT NULL,
  event_id        TEXT COLLATE "C" NOT NULL,
  tenant          TEXT COLLATE "C" NOT NULL,
  tenant_position BIGINT NOT NULL CHECK (tenant_position > 0),
  run_id          TEXT COLLATE "C" NOT NULL,
  sequence        BIGINT NOT NULL CHECK (sequence >= 0),
  type            TEXT NOT NULL,
  timestamp       TIMESTAMPTZ NOT NULL,
  causation_id    TEXT,
  payload         TEXT NOT NULL,
  -- SHA-256 over the columns above, except `month` and `position`, and the hash before it in its
  -- tenant's log.
  hash            BYTEA NOT NULL,
  PRIMARY KEY (position, month)
) PARTITION BY RANGE (month);
CREATE UNIQUE INDEX events_by_id ON events (event_id, month);
CREATE UNIQUE INDEX events_by_tenant ON events (tenant, tenant_position, month);
CREATE INDEX events_by_run ON events (run_id, tenant, position);

-- The processes that have the store open, alive until `expires_at` by the clock of the database.
CREATE TABLE instances (
  id         TEXT PRIMARY KEY,
  expires_at TIMESTAMPTZ NOT NULL
);

-- The instance that does the work which only one may do.
CREATE TABLE duties (
  name     TEXT PRIMARY KEY,
  instance TEXT NOT NULL
);

-- Calls that were started and have not returned, with the process that runs each of them.
CREATE TABLE open_calls (
  tenant          TEXT COLLATE "C" NOT NULL,
  tenant_position BIGINT NOT NULL,
  run_id          TEXT NOT NULL,
  call_id         TEXT NOT NULL,
  event_id        TEXT NOT NULL,
  agent_id        TEXT NOT NULL,
  tool_name       TEXT NOT NULL,
  principal       TEXT NOT NULL,
  instance        TEXT NOT NULL,
  PRIMARY KEY (tenant, tenant_position)
);
CREATE INDEX open_calls_by_call ON open_calls (tenant, run_id, call_id);
CREATE INDEX open_calls_by_instance ON open_calls (instance);

-- Tool sessions that were opened and not closed.
CREATE TABLE open_sessions (
  tenant          TEXT COLLATE "C" NOT NULL,
  run_id          TEXT NOT NULL,
  session_id      TEXT NOT NULL,
  tool_id         TEXT NOT NULL,
  tenant_position BIGINT NOT NULL,
  event_id        TEXT NOT NULL,
  instance        TEXT NOT NULL,
  PRIMARY KEY (tenant, run_id, session_id, tool_id)
);

-- API keys, without the keys. `roles`, `scopes` and `makers` are JSON arrays of strings.
CREATE TABLE keys (
  id           TEXT PRIMARY KEY,
  name         TEXT NOT NULL,
  tenant       TEXT NOT NULL,
  principal    TEXT NOT NULL,
  digest       BYTEA NOT NULL UNIQUE,
  roles        TEXT NOT NULL,
  scopes       TEXT NOT NULL,
  created_at   TIMESTAMPTZ NOT NULL,
  expires_at   TIMESTAMPTZ,
  revoked_at   TIMESTAMPTZ,
  last_used_at TIMESTAMPTZ,
  replaces     TEXT,
  makers       TEXT NOT NULL,
  -- The credential of a browser session, as JSON; such a row is no key.
  session      TEXT,
  -- The epochs of the insertion and of the last change.
  inserted     BIGINT NOT NULL,
  changed      BIGINT NOT NULL
);
CREATE INDEX keys_by_change ON keys (changed);

-- The last valid catalog of each source, as JSON text.
CREATE TABLE catalogs (
  source   TEXT PRIMARY KEY,
  catalog  TEXT NOT NULL,
  saved_at TIMESTAMPTZ NOT NULL
);

-- Signed statements about the state of a tenant's chain, themselves a chain per tenant.
CREATE TABLE checkpoints (
  tenant     TEXT COLLATE "C" NOT NULL,
  number     BIGINT NOT NULL CHECK (number > 0),
  kind       TEXT NOT NULL,
  position   BIGINT NOT NULL CHECK (position > 0),
  hash       BYTEA NOT NULL,
  signed_at  TIMESTAMPTZ NOT NULL,
  public_key BYTEA NOT NULL,
  prev       BYTEA NOT NULL,
  signature  BYTEA NOT NULL,
  PRIMARY KEY (tenant, number)
);
CREATE INDEX checkpoints_by_position ON checkpoints (tenant, position);

-- The witness of each server: the last signed state that it knows. `digest` is the SHA-256 of `text`.
CREATE TABLE witnesses (
  server TEXT COLLATE "C" PRIMARY KEY,
  digest BYTEA NOT NULL,
  text   TEXT NOT NULL
);

-- The progress of the readers of the whole log.
CREATE TABLE cursors (
  name          TEXT COLLATE "C" PRIMARY KEY,
  position      BIGINT NOT NULL CHECK (position >= 0),
  moved_at      TIMESTAMPTZ,
  failing_since TIMESTAMPTZ,
  failures      BIGINT NOT NULL DEFAULT 0,
  problem       TEXT
);

-- Credentials. `sealed` holds the values. `principal` is empty for a tenant's own.
CREATE TABLE credentials (
  id         TEXT PRIMARY KEY,
  tenant     TEXT COLLATE "C" NOT NULL,
  principal  TEXT COLLATE "C" NOT NULL,
  name       TEXT COLLATE "C" NOT NULL,
  kind       TEXT NOT NULL,
  audiences  TEXT NOT NULL,
  created_at TIMESTAMPTZ NOT NULL,
  rotated_at TIMESTAMPTZ NOT NULL,
  expires_at TIMESTAMPTZ,
  revision   BIGINT NOT NULL CHECK (revision > 0),
  sealed     BYTEA NOT NULL,
  UNIQUE (tenant, principal, name)
);

-- Runs of workflows. `inputs` is deleted when the run ends, and sealed where there is a key.
CREATE TABLE runs (
  tenant     TEXT COLLATE "C" NOT NULL,
  call_id    TEXT COLLATE "C" NOT NULL,
  run_id     TEXT COLLATE "C" NOT NULL,
  tool_id    TEXT NOT NULL,
  digest     TEXT NOT NULL,
  principal  TEXT NOT NULL,
  key_id     TEXT,
  parent     TEXT,
  state      TEXT NOT NULL,
  code       TEXT,
  durable    BOOLEAN NOT NULL,
  started_at TIMESTAMPTZ NOT NULL,
  ended_at   TIMESTAMPTZ,
  inputs     BYTEA,
  instance   TEXT NOT NULL,
  adopted    BOOLEAN NOT NULL DEFAULT FALSE,
  cancelled  BOOLEAN NOT NULL DEFAULT FALSE,
  PRIMARY KEY (tenant, call_id)
);
CREATE INDEX runs_by_start ON runs (started_at);
CREATE INDEX runs_by_run ON runs (tenant, run_id, started_at, call_id);
CREATE INDEX runs_by_instance ON runs (instance) WHERE state = 'running';

-- The results of calls in unfinished runs.
CREATE TABLE run_results (
  tenant  TEXT NOT NULL,
  call_id TEXT NOT NULL,
  step    TEXT NOT NULL,
  result  BYTEA NOT NULL,
  PRIMARY KEY (tenant, call_id, step)
);

-- Pins of upstream tools. A digest is the SHA-256 of the document in the next column.
CREATE TABLE pins (
  source          TEXT NOT NULL,
  tool            TEXT COLLATE "C" NOT NULL,
  approved_digest BYTEA,
  approved        TEXT,
  approved_at     TIMESTAMPTZ,
  approved_by     TEXT,
  approved_tenant TEXT,
  seen_digest     BYTEA,
  seen            TEXT,
  seen_at         TIMESTAMPTZ,
  change_count    BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (source, tool),
  CHECK (approved_digest IS NOT NULL OR seen_digest IS NOT NULL)
);

-- Forms that were approved before that of the pin, and remain approved.
CREATE TABLE earlier_forms (
  source          TEXT NOT NULL,
  tool            TEXT COLLATE "C" NOT NULL,
  digest          BYTEA NOT NULL,
  form            TEXT NOT NULL,
  approved_at     TIMESTAMPTZ NOT NULL,
  approved_by     TEXT,
  approved_tenant TEXT,
  PRIMARY KEY (source, tool, digest)
);

-- Approval requests. `live` is the fingerprint of the call while the request is in force.
CREATE TABLE approvals (
  tenant     TEXT NOT NULL,
  id         TEXT COLLATE "C" NOT NULL,
  principal  TEXT NOT NULL,
  state      TEXT NOT NULL,
  live       TEXT,
  revision   BIGINT NOT NULL,
  change     BIGINT NOT NULL UNIQUE,
  created_at TIMESTAMPTZ NOT NULL,
  expires_at TIMESTAMPTZ NOT NULL,
  body       TEXT NOT NULL,
  shown      BYTEA,
  PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX approvals_live ON approvals (tenant, live) WHERE live IS NOT NULL;
CREATE INDEX approvals_overdue ON approvals (expires_at) WHERE live IS NOT NULL;
CREATE INDEX approvals_pending ON approvals (tenant, principal) WHERE state = 'pending';
CREATE INDEX approvals_by_creation ON approvals (created_at);

-- One row: the fingerprint key, sealed where there is a seal key, and the last assigned change. Its
-- lock orders the changes.
CREATE TABLE approval_state (
  id     INTEGER PRIMARY KEY CHECK (id = 1),
  key    BYTEA,
  change BIGINT NOT NULL
);
INSERT INTO approval_state (id, change) VALUES (1, 0);

CREATE TABLE approval_readers (
  reader TEXT PRIMARY KEY,
  change BIGINT NOT NULL
);

-- Idempotent calls and their answers. `call` and `answer` are sealed.
CREATE TABLE once_calls (
  id        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant    TEXT COLLATE "C" NOT NULL,
  principal TEXT COLLATE "C" NOT NULL,
  key       BYTEA NOT NULL,
  state     TEXT NOT NULL CHECK (state IN ('running', 'ended', 'spent', 'lost')),
  instance  TEXT NOT NULL,
  run_id    TEXT NOT NULL,
  call_id   TEXT NOT NULL,
  call      BYTEA NOT NULL,
  answer    BYTEA,
  bytes     BIGINT NOT NULL CHECK (bytes > 0),
  until     TIMESTAMPTZ NOT NULL,
  UNIQUE (tenant, principal, key)
);
CREATE INDEX once_calls_by_age ON once_calls (tenant, principal, id) WHERE state <> 'running';
CREATE INDEX once_calls_by_end ON once_calls (until);
CREATE INDEX once_calls_by_instance ON once_calls (instance) WHERE state = 'running';

-- The idempotent calls and bytes of each caller. Its lock orders the changes of one caller.
CREATE TABLE once_holders (
  tenant    TEXT COLLATE "C" NOT NULL,
  principal TEXT COLLATE "C" NOT NULL,
  calls     BIGINT NOT NULL,
  bytes     BIGINT NOT NULL,
  PRIMARY KEY (tenant, principal)
);

-- Calls of a principal on a day that count towards a quota: of one tool, or of all with ''.
CREATE TABLE quotas (
  day       BIGINT NOT NULL,
  tenant    TEXT NOT NULL,
  principal TEXT NOT NULL,
  tool      TEXT NOT NULL,
  calls     BIGINT NOT NULL CHECK (calls >= 0),
  PRIMARY KEY (day, tenant, principal, tool)
);

-- Buckets of rate limits: `arrival` is the theoretical arrival time (GCRA) in microseconds.
CREATE UNLOGGED TABLE rates (
  tenant  TEXT COLLATE "C" NOT NULL,
  bucket  TEXT COLLATE "C" NOT NULL,
  arrival BIGINT NOT NULL,
  PRIMARY KEY (tenant, bucket)
);

-- Client sessions that have ended, and requests to cancel (`request`, JSON text of an id) that every
-- server must see. `session` is a hash of the session's id. Times are milliseconds since the Unix
-- epoch.
CREATE TABLE session_notices (
  number  BIGINT PRIMARY KEY,
  session BYTEA NOT NULL CHECK (length(session) = 32),
  request TEXT,
  opened  BIGINT NOT NULL,
  until   BIGINT NOT NULL
);

CREATE UNIQUE INDEX session_ends ON session_notices (session) WHERE request IS NULL;
CREATE INDEX session_notices_by_until ON session_notices (until);

-- What people saved for others of their tenant. `tool` is empty for a view. `content` is marked as plain,
-- or sealed for its place (`seal_places.rs`).
CREATE TABLE saved (
  id        TEXT COLLATE "C" PRIMARY KEY,
  tenant    TEXT COLLATE "C" NOT NULL,
  kind      TEXT NOT NULL CHECK (kind IN ('view', 'call')),
  tool      TEXT COLLATE "C" NOT NULL,
  name      TEXT COLLATE "C" NOT NULL,
  principal TEXT NOT NULL,
  saved_at  TIMESTAMPTZ NOT NULL,
  content   BYTEA NOT NULL,
  UNIQUE (tenant, kind, tool, name)
);
CREATE INDEX saved_by_principal ON saved (tenant, kind, principal);

-- The accounts that people connected. `principal` is empty for a tenant's own. `terms` is JSON text;
-- `sealed` has the tokens, sealed for all other columns (`seal_places.rs`) but `created_at`,
-- `changed_at`, `last_used_at` and the lease. Until `leased_until` only `lease_holder` renews the tokens.
CREATE TABLE account_grants (
  id           TEXT COLLATE "C" PRIMARY KEY,
  tenant       TEXT COLLATE "C" NOT NULL,
  principal    TEXT COLLATE "C" NOT NULL,
  source       TEXT COLLATE "C" NOT NULL,
  terms        TEXT NOT NULL,
  created_at   TIMESTAMPTZ NOT NULL,
  changed_at   TIMESTAMPTZ NOT NULL,
  expires_at   TIMESTAMPTZ,
  last_used_at TIMESTAMPTZ,
  revision     BIGINT NOT NULL CHECK (revision > 0),
  sealed       BYTEA NOT NULL,
  lease_holder TEXT,
  leased_until TIMESTAMPTZ,
  UNIQUE (tenant, principal, source)
);
CREATE INDEX account_grants_by_expiry ON account_grants (expires_at);

-- Pending authorizations. `state` is the SHA-256 of the state in the request; `sealed`
-- has the verifier, sealed for all other columns but `created_at`. `owner` is the principal of the
-- grant, or empty for the tenant. `principal`, as in `terms`, is the one that must finish it.
CREATE TABLE pending_authorizations (
  state      BYTEA PRIMARY KEY CHECK (length(state) = 32),
  id         TEXT COLLATE "C" NOT NULL UNIQUE,
  tenant     TEXT COLLATE "C" NOT NULL,
  owner      TEXT COLLATE "C" NOT NULL,
  source     TEXT COLLATE "C" NOT NULL,
  principal  TEXT COLLATE "C" NOT NULL,
  terms      TEXT NOT NULL,
  created_at TIMESTAMPTZ NOT NULL,
  expires_at TIMESTAMPTZ NOT NULL,
  sealed     BYTEA NOT NULL
);
CREATE INDEX pending_authorizations_by_principal ON pending_authorizations (tenant, principal);
CREATE INDEX pending_authorizations_by_expiry ON pending_authorizations (expires_at);

-- Links at which people connect accounts, for one use. `hash` is the SHA-256 of the secret part of the
-- address. `owner` as above; only `principal` may use the link.
CREATE TABLE connect_links (
  hash       BYTEA PRIMARY KEY CHECK (length(hash) = 32),
  tenant     TEXT COLLATE "C" NOT NULL,
  owner      TEXT COLLATE "C" NOT NULL,
  source     TEXT COLLATE "C" NOT NULL,
  principal  TEXT COLLATE "C" NOT NULL,
  created_at TIMESTAMPTZ NOT NULL,
  expires_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX connect_links_by_principal ON connect_links (tenant, principal, created_at);
CREATE INDEX connect_links_by_expiry ON connect_links (expires_at);

-- The clients that authorization servers registered for this gateway. `client_auth` is JSON text;
-- `sealed` has the secret, sealed for all other columns but `created_at`.
CREATE TABLE oauth_clients (
  id           TEXT COLLATE "C" NOT NULL UNIQUE,
  issuer       TEXT COLLATE "C" NOT NULL,
  redirect_uri TEXT COLLATE "C" NOT NULL,
  client_id    TEXT NOT NULL,
  client_auth  TEXT NOT NULL,
  created_at   TIMESTAMPTZ NOT NULL,
  expires_at   TIMESTAMPTZ,
  sealed       BYTEA NOT NULL,
  PRIMARY KEY (issuer, redirect_uri)
);

-- What the authorization server for MCP clients keeps (`core/src/bridge.rs`). `tenant` and `principal`
-- are empty before somebody has signed in; `sealed` has the value, sealed for all other columns but
-- `created_at`.
CREATE TABLE bridge_items (
  id         TEXT COLLATE "C" PRIMARY KEY,
  kind       TEXT NOT NULL,
  tenant     TEXT COLLATE "C" NOT NULL,
  principal  TEXT COLLATE "C" NOT NULL,
  created_at TIMESTAMPTZ NOT NULL,
  expires_at TIMESTAMPTZ NOT NULL,
  revision   BIGINT NOT NULL CHECK (revision > 0),
  sealed     BYTEA NOT NULL
);
CREATE INDEX bridge_items_by_expiry ON bridge_items (kind, expires_at);
CREATE INDEX bridge_items_by_principal ON bridge_items (tenant, principal);

-- Announces changes of keys, pins, approvals, cancellations and sessions to every process.
CREATE FUNCTION announce_change() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN PERFORM pg_notify('toolcrib_changes', ''); RETURN NULL; END $$;
CREATE TRIGGER announce AFTER UPDATE ON meta
  FOR EACH STATEMENT EXECUTE FUNCTION announce_change();
CREATE TRIGGER announce AFTER UPDATE ON approval_state
  FOR EACH STATEMENT EXECUTE FUNCTION announce_change();

-- The index of the log, by ranges of positions (`gateway/src/audit/search`). Derived: it can be
-- deleted at any time.
CREATE TABLE segments (
  number BIGINT PRIMARY KEY,
  head   BYTEA NOT NULL,
  facts  BYTEA NOT NULL,
  ids    BYTEA NOT NULL
);
-- Their columns are compressed already.
ALTER TABLE segments ALTER COLUMN head SET STORAGE EXTERNAL, ALTER COLUMN facts SET STORAGE EXTERNAL,
  ALTER COLUMN ids SET STORAGE EXTERNAL;

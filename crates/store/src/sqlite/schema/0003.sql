-- Runs of workflows. `inputs` is what a run needs to go on in another process; it is gone when the
-- run is over, and sealed where there is a key. `cancelled` is set by whoever wants it to end.
CREATE TABLE runs (
  tenant     TEXT NOT NULL,
  call_id    TEXT NOT NULL,
  run_id     TEXT NOT NULL,
  tool_id    TEXT NOT NULL,
  digest     TEXT NOT NULL,
  principal  TEXT NOT NULL,
  key_id     TEXT,
  parent     TEXT,
  state      TEXT NOT NULL,
  code       TEXT,
  durable    INTEGER NOT NULL,
  inputs     BLOB,
  instance   TEXT NOT NULL,
  adopted    INTEGER NOT NULL DEFAULT 0,
  cancelled  INTEGER NOT NULL DEFAULT 0,
  started_at TEXT NOT NULL,
  ended_at   TEXT,
  PRIMARY KEY (tenant, call_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_by_tenant ON runs (tenant, started_at);
CREATE INDEX runs_by_start ON runs (started_at);
CREATE INDEX runs_by_instance ON runs (instance) WHERE state = 'running';

-- What came of the calls of runs that are not over.
CREATE TABLE run_results (
  tenant  TEXT NOT NULL,
  call_id TEXT NOT NULL,
  step    TEXT NOT NULL,
  result  BLOB NOT NULL,
  PRIMARY KEY (tenant, call_id, step)
) STRICT, WITHOUT ROWID;

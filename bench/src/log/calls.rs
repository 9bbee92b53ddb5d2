//! The events of calls as the gateway makes them: new ids for each call, and a separate run.

use std::time::SystemTime;

use anyhow::Result;
use toolcrib_core::clock::Timestamp;
use toolcrib_core::egress::EgressDecided;
use toolcrib_core::event::{CallStatus, EventBody, NewEvent, ToolCalled, ToolReturned, Transport};
use toolcrib_core::id::{AgentId, EventId, PrincipalId, RunId, TenantId};
use uuid::Uuid;

/// The calls of one principal of a tenant.
pub(crate) struct Calls {
    tenant: TenantId,
    principal: PrincipalId,
}

impl Calls {
    pub(crate) fn new(tenant: TenantId) -> Result<Self> {
        Ok(Self { tenant, principal: "alice".parse()? })
    }

    /// The opening event of the next call, and the events to store after it.
    pub(crate) fn next(&mut self) -> Result<(NewEvent, Vec<NewEvent>)> {
        let tool = "mcp:files.read_file".to_owned();
        let called = ToolCalled {
            agent_id: AgentId::system(),
            tool_name: tool.clone(),
            call_id: Uuid::now_v7().to_string().parse()?,
            args_hash: Some(format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())),
            principal: self.principal.clone(),
            transport: Transport::Mcp,
            actors: Vec::new(),
        };
        let returned = ToolReturned {
            duration_ms: Some(7),
            principal: Some(self.principal.clone()),
            ..ToolReturned::new(
                called.agent_id.clone(),
                tool,
                called.call_id.clone(),
                CallStatus::Ok,
            )
        };
        let run: RunId = Uuid::now_v7().to_string().parse()?;
        let egress = EgressDecided::allowed("tools.example:443".to_owned());
        let called = self.event(&run, EventBody::ToolCalled(called), None)?;
        let cause = Some(&called.event_id);
        let ending = vec![
            self.event(&run, EventBody::EgressDecided(egress), cause)?,
            self.event(&run, EventBody::ToolReturned(returned), cause)?,
        ];
        Ok((called, ending))
    }

    fn event(&self, run: &RunId, body: EventBody, cause: Option<&EventId>) -> Result<NewEvent> {
        Ok(NewEvent {
            event_id: Uuid::now_v7().to_string().parse()?,
            tenant: self.tenant.clone(),
            run_id: run.clone(),
            body,
            timestamp: Timestamp::from(SystemTime::now()),
            causation_id: cause.cloned(),
        })
    }
}

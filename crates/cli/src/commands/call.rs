//! `call`: one call, in this process or on a running server.

mod answer;
mod arguments;
mod remote;

use std::sync::Arc;

use toolcrib_core::{
    call::{CallError, ProgressSink},
    catalog::Tenants,
    id::TenantId,
    schema::Schema,
};
use toolcrib_gateway::{CallRequest, Gateway, ToolRef, approvals, metrics::Surface};

use arguments::ParsedArguments;

use crate::{args::CallArgs, client::Client, context::Context, failure::Exit, local, meter::Meter};

pub(crate) async fn run(args: CallArgs, cx: &Context) -> anyhow::Result<Exit> {
    let arguments = ParsedArguments::parse(&args)?;
    match Client::connect(cx)? {
        Some(client) => remote::run(&args.tool, arguments, &client, cx.printer).await,
        None => run_local(&args.tool, arguments, cx).await,
    }
}

async fn run_local(tool: &str, arguments: ParsedArguments, cx: &Context) -> anyhow::Result<Exit> {
    let printer = cx.printer;
    local::with_gateway(cx, async |gateway: &Gateway| {
        let entry = local::awaited(gateway, tool, printer).await?;
        let schema = entry.tool.input_schema.as_ref().map(Schema::to_value);
        let arguments = arguments.for_schema(schema.as_ref())?;
        // The operator acts in a tenant that has the tool.
        let tenant = match &entry.tenants {
            Tenants::Only(tenants) => tenants.first().cloned(),
            Tenants::All | Tenants::Except(_) => None,
        };
        let tenant = tenant.map_or_else(|| TenantId::parse("default"), Ok)?;
        let operator = local::operator(tenant, Vec::new())?;
        let tool = ToolRef::Id(entry.id.as_str());
        let mut request = CallRequest::new(gateway.snapshot(), Surface::CLI, tool, arguments);
        let meter = Arc::new(Meter::new(printer));
        request.progress = Some(Arc::clone(&meter) as Arc<dyn ProgressSink>);
        let report = gateway.call(&operator, request).await;
        meter.end();
        let approval = match &report.result {
            Err(CallError::ApprovalRequired { pending: Some(asked), .. }) => {
                let shown = gateway.approvals().find(&operator, &asked.approval).await.ok();
                let now = gateway.clock().now();
                let config = gateway.config();
                shown.map(|found| {
                    let approval = &found.approval;
                    approvals::to_json(approval, None, &operator, &config.people, now)
                })
            }
            _ => None,
        };
        answer::print_report(report, approval.as_ref(), printer)
    })
    .await
}

// Written by `memoryd connect pi`: gives a session what memoryd remembers, and says when it compacts or ends.
// `memoryd connect pi --remove --write` takes it away. It never fails a session: no answer is an empty one.
@CALL@

export default function (pi) {
  let told = null
  const about = (ctx) => ({
    session_id: ctx?.sessionManager?.getSessionId?.(),
    transcript_path: ctx?.sessionManager?.getSessionFile?.(),
    cwd: ctx?.cwd,
  })
  const forget = async () => {
    told = null
  }
  for (const event of ["session_start", "session_switch", "session_fork", "session_compact"]) pi.on(event, forget)
  pi.on("before_agent_start", async (event, ctx) => {
    told ??= hook("session-start", about(ctx))
    const text = await told
    const found = event.prompt ? await hook("prompt", { ...about(ctx), prompt: event.prompt }) : ""
    return {
      ...(text ? { systemPrompt: `${event.systemPrompt}\n\n${text}` } : {}),
      ...(found ? { message: { customType: "memoryd", content: found, display: false } } : {}),
    }
  })
  pi.on("session_before_compact", async (_event, ctx) => {
    await hook("pre-compact", about(ctx))
  })
  pi.on("session_shutdown", async (_event, ctx) => {
    await hook("session-end", about(ctx))
  })
}

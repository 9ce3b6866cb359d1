// Written by `memoryd connect opencode`: gives a session what memoryd remembers, and says when it compacts or ends.
// `memoryd connect opencode --remove --write` takes it away. It never fails a session: no answer is an empty one.
@CALL@

export const Memoryd = async ({ directory }) => {
  const told = new Map()
  const about = (session) => ({ session_id: session, cwd: directory })
  const context = (session) => {
    if (!told.has(session)) told.set(session, hook("session-start", about(session)))
    return told.get(session)
  }
  return {
    "experimental.chat.system.transform": async (input, output) => {
      const text = await context(input?.sessionID ?? "")
      if (text) output.system.push(text)
    },
    // The words of a command's template are not the person's: only what they typed behind its name.
    "command.execute.before": async (input, output) => {
      const template = output?.parts?.find((part) => part?.type === "text")
      if (template) template.metadata = { ...template.metadata, memoryd: { arguments: input?.arguments ?? "" } }
    },
    // A part of the prompt itself: what stands before it stays as it is, and with it the provider's cache.
    "chat.message": async (input, output) => {
      const session = input?.sessionID ?? ""
      const parts = output?.parts ?? []
      const typed = parts.filter((part) => part?.type === "text" && !part.synthetic)
      const last = parts.at(-1)
      if (!typed.length || !last?.id) return
      await context(session)
      // `opencode run` puts its prompt in quotes, which would make it one phrase to look for.
      const prompt = typed
        .map((part) => (part.metadata?.memoryd?.arguments ?? part.text).replace(/^"([^"]*)"$/, "$1"))
        .join("\n")
      const text = await hook("prompt", { ...about(session), prompt })
      const { sessionID, messageID } = last
      if (text) parts.push({ id: `${last.id}0`, sessionID, messageID, type: "text", text, synthetic: true })
    },
    "experimental.session.compacting": async (input) => {
      await hook("pre-compact", about(input?.sessionID ?? ""))
    },
    event: async ({ event }) => {
      const session = event?.properties?.sessionID ?? event?.properties?.info?.id ?? ""
      if (event?.type === "session.compacted") told.delete(session)
      if (event?.type === "session.deleted") {
        told.delete(session)
        await hook("session-end", about(session))
      }
    },
    // No event tells that a person has left: the sessions of this process end with it.
    dispose: async () => {
      const left = [...told.keys()].filter(Boolean)
      told.clear()
      await Promise.all(left.map((session) => hook("session-end", about(session))))
    },
  }
}

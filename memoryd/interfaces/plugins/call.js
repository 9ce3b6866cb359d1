import { spawn } from "node:child_process"

const PROGRAM = "@PROGRAM@"
const OPTIONS = "@OPTIONS@"

function hook(event, payload) {
  return new Promise((resolve) => {
    let answer = ""
    try {
      const child = spawn(PROGRAM[0], [...PROGRAM.slice(1), event, ...OPTIONS], {
        stdio: ["pipe", "pipe", "ignore"],
        timeout: 5000,
      })
      child.on("error", () => resolve(""))
      child.on("close", (code) => resolve(code === 0 ? answer : ""))
      child.stdout.setEncoding("utf8")
      child.stdout.on("data", (part) => (answer += part))
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(payload))
    } catch {
      resolve("")
    }
  })
}

// The official TypeScript SDK signs in: argv[2] is the endpoint. Prints the address for the owner, reads
// back the one that the browser was sent to, then calls a tool, refreshes, and calls it again.
import { createInterface } from "node:readline/promises";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.argv[3] + "/package.json");
const load = (path) => import(pathToFileURL(require.resolve(path)).href);
const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { UnauthorizedError } = await load("@modelcontextprotocol/sdk/client/auth.js");

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (value) => console.log(JSON.stringify(value));
const kept = {};
const provider = {
  redirectUrl: "http://localhost:33418/callback",
  clientMetadata: {
    client_name: "Scribe",
    redirect_uris: ["http://localhost:33418/callback"],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  },
  state: () => "xyz",
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client; },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; },
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  codeVerifier: () => kept.verifier,
  redirectToAuthorization: (address) => say({ authorize: String(address) }),
};

const url = new URL(process.argv[2]);
const open = () => new StreamableHTTPClientTransport(url, { authProvider: provider });
const search = async () => {
  const client = new Client({ name: "scribe", version: "1" });
  await client.connect(open());
  const result = await client.callTool({ name: "search", arguments: { q: "invoice" } });
  await client.close();
  return result;
};

try {
  await search();
  say({ error: "nobody was asked" });
  process.exit(1);
} catch (error) {
  if (!(error instanceof UnauthorizedError)) throw error;
}
const back = new URL((await lines.next()).value);
await open().finishAuth(back.searchParams.get("code"));
const first = kept.tokens.refresh_token;
say({ called: await search(), scope: kept.tokens.scope });
kept.tokens = { ...kept.tokens, access_token: "no longer known" };
say({ called: await search(), rotated: kept.tokens.refresh_token !== first });
process.exit(0);

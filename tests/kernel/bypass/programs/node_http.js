// SPDX-License-Identifier: Apache-2.0

// node_http.js serve PORT | node_http.js ask HOST PORT SECONDS: http with an agent that keeps connections.
"use strict";
const crypto = require("crypto");
const http = require("http");

const digest = (data) => crypto.createHash("sha256").update(data).digest("hex");

function whole(stream, then) {
	const parts = [];
	stream.on("data", (part) => parts.push(part));
	stream.on("end", () => then(Buffer.concat(parts)));
}

function serve(port) {
	http.createServer((request, response) =>
		whole(request, (body) => response.end(digest(body)))
	).listen(port, "::");
}

function ask(host, port, seconds) {
	const agent = new http.Agent({ keepAlive: true, maxSockets: 2 });
	const until = Date.now() + 1000 * seconds;
	let n = 0, busy = 2;
	const next = () => {
		if (Date.now() > until) {
			if (!--busy) agent.destroy();
			return;
		}
		const body = Buffer.alloc(1 + ((n++ * 37) % 60000), n & 255);
		const request = http.request({ host, port, agent, method: "POST" }, (response) =>
			whole(response, (said) => {
				if (said.toString() !== digest(body)) throw new Error(`request ${n}: ${said}`);
				next();
			})
		);
		request.end(body);
	};
	next();
	next();
}

const [what, ...rest] = process.argv.slice(2);
if (what === "serve") serve(Number(rest[0]));
else ask(rest[0], Number(rest[1]), Number(rest[2]));

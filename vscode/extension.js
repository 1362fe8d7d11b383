// SPDX-License-Identifier: Apache-2.0
// Starts `policyc lsp` for YAML and JSON files of the folder.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const [command, ...args] = workspace.getConfiguration("policyc").get("command");
  const documentSelector = ["yaml", "json"].map((language) => ({ scheme: "file", language }));
  const options = { cwd: workspace.workspaceFolders?.[0].uri.fsPath };
  client = new LanguageClient("policyc", { command, args, options }, { documentSelector });
  return client.start();
};

exports.deactivate = () => client?.stop();

# A stand-in for nixpkgs, which is large. It has the functions that our flake calls; they return their arguments.
{
  outputs = { self }:
    let
      systems = [ "aarch64-darwin" "aarch64-linux" "x86_64-darwin" "x86_64-linux" ];
      genAttrs = names: make: builtins.listToAttrs (map (name: { inherit name; value = make name; }) names);
      platform = { canExecute = other: true; };
      pkgs = {
        cargo = "cargo";
        clippy = "clippy";
        installShellFiles = "installShellFiles";
        lib.licenses = { mit = "MIT"; asl20 = "Apache-2.0"; };
        lib.optionalString = condition: text: if condition then text else "";
        mkShell = arguments: arguments.packages;
        rustc = "rustc";
        rustfmt = "rustfmt";
        rustPlatform.buildRustPackage = arguments: arguments;
        stdenv = { buildPlatform = platform; hostPlatform = platform; };
      };
    in
    {
      lib.genAttrs = genAttrs;
      legacyPackages = genAttrs systems (system: pkgs);
    };
}
